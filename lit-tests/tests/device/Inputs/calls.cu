// Functions that use many registers or much stack, below kernels that do not.
__device__ __noinline__ double heavy(const double *in) {
  double v[32], sum = 0;
  for (int i = 0; i < 32; ++i)
    v[i] = in[i] * in[i + 1];
  for (int k = 0; k < in[0]; ++k)
    for (int i = 0; i < 32; ++i)
      sum += v[i] = v[i] * v[(i + 7) % 32] + sum;
  return sum;
}
__device__ __noinline__ int stacked(int n) {
  int a[256], sum = 0;
  for (int i = 0; i < 256; ++i)
    a[i] = n * i;
  for (int i = 0; i < n; ++i)
    sum += a[(sum + i) & 255];
  return sum;
}
__device__ __noinline__ double both(const double *in, int n) { return n > 3 ? heavy(in) : stacked(n); }
extern "C" {
__global__ void registers(double *out, const double *in) { out[threadIdx.x] = heavy(in + threadIdx.x); }
__global__ void stack(int *out, int n) { out[threadIdx.x] = stacked(n + threadIdx.x); }
__global__ void deep(double *out, const double *in, int n) { out[threadIdx.x] = both(in + threadIdx.x, n); }
}
int main() {
  registers<<<1, 32>>>(nullptr, nullptr);
  stack<<<1, 32>>>(nullptr, 3);
  deep<<<1, 32>>>(nullptr, nullptr, 3);
}

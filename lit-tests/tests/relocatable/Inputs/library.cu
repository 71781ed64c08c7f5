// Two units of a library (-DFIRST, -DSECOND), and a program that uses it.
__device__ int shift(int x);
#ifdef FIRST
__device__ int base = 5;
__global__ void shifted(int *p, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] = shift(p[i]) * n;
}
__global__ void sum(int *p, int n) {
  int total = base;
  for (int i = 0; i < n; i++) total += p[i];
  *p = total;
}
#elif defined(SECOND)
__device__ int shift(int x) { return 3 * x + 1; }
#else
__global__ void own(int *p) { *p = shift(*p); }
int main() {}
#endif

// The smallest link that needs device LTO: a kernel whose helper is in the other file. `cargo xtask bench` times it.
extern __device__ int scaled(int value);

__device__ int launches;

__global__ void fill(int *out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    out[i] = scaled(i);
  if (i == 0)
    atomicAdd(&launches, 1);
}

int main() {
  fill<<<1, 32>>>(nullptr, 0);
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 77;
}

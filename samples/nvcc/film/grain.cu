// The grain of the film: a kernel that a unit of the library launches.
#include "../device.cuh"

static __device__ unsigned long long work_done;

unsigned long long pixels_grained() {
  unsigned long long count = 0;
  check_cuda(cudaMemcpyFromSymbol(&count, work_done, sizeof count), "read grain.cu's work_done");
  return count;
}

__global__ void add_grain(unsigned *pixels) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= settings.width * settings.height)
    return;
  unsigned noise = (i + settings.grain) * 2654435761u >> 24;
  pixels[i] = max(pixels[i], noise) - noise;
  atomicAdd(&work_done, 1ull);
}

void grain(unsigned *pixels) {
  add_grain<<<pixel_blocks(), block>>>(pixels);
  check_cuda(cudaGetLastError(), "launch add_grain");
}

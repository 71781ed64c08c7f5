// How many pixels have which level, in managed memory; blocks count in shared memory first.
#include "../device.cuh"

__managed__ unsigned histogram[bin_count];

__global__ void count_levels(const unsigned *pixels) {
  __shared__ unsigned counts[bin_count];
  if (threadIdx.x < bin_count)
    counts[threadIdx.x] = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < settings.width * settings.height)
    atomicAdd(&counts[pixels[i] * bin_count / (white + 1)], 1u);
  __syncthreads();
  if (threadIdx.x < bin_count)
    atomicAdd(&histogram[threadIdx.x], counts[threadIdx.x]);
}

void measure(const unsigned *pixels) {
  count_levels<<<pixel_blocks(), block>>>(pixels);
  check_cuda(cudaGetLastError(), "launch count_levels");
}

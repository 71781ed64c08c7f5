// Solarizes bright tiles: a kernel finds them, and launches another one for each, which a different file defines.
//
// With -DDEVICE_LAUNCHES=0 no kernel launches kernels, and the program needs no libcudadevrt.
#include "device.cuh"

#ifndef DEVICE_LAUNCHES
#define DEVICE_LAUNCHES 1
#endif

__device__ unsigned long long solarized;
__managed__ unsigned long long level_sum = 0;

__global__ void sum_levels(const unsigned *pixels) {
  unsigned long long sum = 0;
  for (int i = threadIdx.x; i < settings.width * settings.height; i += blockDim.x)
    sum += pixels[i];
  atomicAdd(&level_sum, sum);
}

// One block, one thread for each tile.
__global__ void solarize_bright_tiles(unsigned *pixels) {
  int across = settings.width / tile, down = settings.height / tile;
  for (int i = threadIdx.x; i < across * down; i += blockDim.x) {
    int left = i % across * tile, top = i / across * tile;
    if (pixels[(top + tile / 2) * settings.width + left + tile / 2] <= settings.threshold)
      continue;
    atomicAdd(&solarized, 1ull);
#if DEVICE_LAUNCHES
    solarize_tile<<<1, 32>>>(pixels, left, top);
#else
    solarize(pixels, left, top, 0, 1);
#endif
  }
#if DEVICE_LAUNCHES
  // Starts when this kernel and all that it launched have ended.
  if (threadIdx.x == 0)
    sum_levels<<<1, block, 0, cudaStreamTailLaunch>>>(pixels);
#endif
}

void solarize_photo(unsigned *pixels) {
  solarize_bright_tiles<<<1, block>>>(pixels);
  check_cuda(cudaGetLastError(), "launch solarize_bright_tiles");
#if !DEVICE_LAUNCHES
  sum_levels<<<1, block>>>(pixels);
  check_cuda(cudaGetLastError(), "launch sum_levels");
#endif
}

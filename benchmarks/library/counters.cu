// Variables that kernels of every file share, and what they report to.
#include <cassert>
#include <cstdio>

#include "shared.cuh"

__device__ unsigned long long tiles_done;
__constant__ float work_scale = 1.0f;

__device__ void count_tile(unsigned items) {
  if (items != 0)
    atomicAdd(&tiles_done, 1ull);
}

__device__ void check_tile(bool valid, int tile) {
  if (!valid)
    printf("tile %d of block %d is not in order\n", tile, int(blockIdx.x));
  assert(valid);
}

__global__ void reset_counters() { tiles_done = 0; }

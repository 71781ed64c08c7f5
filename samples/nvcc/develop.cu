// The curves that map levels to levels, and the table that chooses one: device function pointers, two of them to
// functions that only the static library defines.
#include "device.cuh"

__device__ unsigned long long clipped = 0;

static __device__ unsigned lift_curve(unsigned level) {
  unsigned below_white = white - level;
  return white - below_white * below_white / white;
}

__device__ CurveFn curves[CURVE_COUNT] = {lift_curve, shoulder_curve, gamma_curve};

__global__ void develop(unsigned *pixels) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= settings.width * settings.height)
    return;
  unsigned level = pixels[i] * settings.gain / 256;
  if (level > white) {
    level = white;
    atomicAdd(&clipped, 1ull);
  }
  int x = i % settings.width, y = i / settings.width;
  pixels[i] = curves[(x / tile + y / tile) % CURVE_COUNT](level);
}

// Every step-th pixel of a tile from the first on: levels above the middle fall again.
__device__ void solarize(unsigned *pixels, int left, int top, int first, int step) {
  for (int i = first; i < tile * tile; i += step) {
    unsigned &level = pixels[(top + i / tile) * settings.width + left + i % tile];
    level = level > white / 2 ? white - level : level;
  }
}

__global__ void solarize_tile(unsigned *pixels, int left, int top) {
  solarize(pixels, left, top, threadIdx.x, blockDim.x);
}

// A deterministic stand-in for thermal noise.
#include "../device.cuh"

__device__ double thermal_kick(double heat, int particle, int step) {
  return sqrt(heat) * sin(0.1 * particle + 0.37 * step);
}

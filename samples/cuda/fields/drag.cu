// Drag that grows as a power of the speed, and with the heat below.
#include "../device.cuh"

__device__ double power_law_drag(double speed, double heat) {
  return plate.drag * pow(speed + 1e-6, 1.5) * (1 + log1p(heat));
}

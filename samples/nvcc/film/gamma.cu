// A power law, for screens.
#include "../device.cuh"

__device__ unsigned gamma_curve(unsigned level) {
  return static_cast<unsigned>(white * pow(level / static_cast<double>(white), 1 / 2.2));
}

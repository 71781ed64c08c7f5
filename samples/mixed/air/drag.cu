// nvcc, in a library: the resistance of the air.
#include "../device.cuh"

__device__ double drag(double speed) { return air.density * speed * fabs(speed) / 2; }

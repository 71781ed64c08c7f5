#include "hip.h"
__device__ int scaled(int value) { return value * 7 + 1; }
__global__ void scale(float *values) { values[__builtin_amdgcn_workitem_id_x()] *= 2.0f; }
#ifdef __HIP_DEVICE_COMPILE__
// references.ll has the host's side of them.
extern "C" {
__device__ __attribute__((weak)) int input, output;
}
#endif

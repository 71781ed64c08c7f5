#include "../../Inputs/cuda.h"

__device__ int twice(int x) { return 2 * x; }
__global__ void second(int *p) { *p = twice(*p); }

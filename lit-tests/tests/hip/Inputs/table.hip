#include "hip.h"
typedef int (*function)(int);
__device__ int far(int);
__device__ __attribute__((noinline)) int near(int x) { return x * 3; }
__device__ function table[2] = {near, far};
__global__ void by_pointer(int *values, int which) { values[0] = table[which](values[1]); }
__global__ void calls_near(int *values) { values[0] = near(values[1]); }
__global__ void calls_far(int *values) { values[0] = far(values[1]); }

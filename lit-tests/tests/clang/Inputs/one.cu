// Calls a device function of two.cu. Without a GPU the launch fails, and the program prints that.
#include "../../Inputs/cuda.h"
#include <stdio.h>

__device__ int twice(int x);
__device__ int counter;

__global__ void first(int *p) { *p = twice(*p) + counter; }

int main() {
  first<<<1, 1>>>(nullptr);
  puts("launched");
}

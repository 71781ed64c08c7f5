#include "hip.h"
typedef int (*function)(int);
__device__ __attribute__((noinline)) int far(int x) {
  volatile int stack[4];
  stack[x & 3] = x;
  return stack[(x + 1) & 3] * 7;
}
__global__ void with_lds(int *values) {
  __shared__ int tile[100];
  tile[values[0]] = far(values[1]);
  values[2] = tile[values[3]];
}
__device__ int with_many_registers(int x) {
  float all[60];
  for (int i = 0; i < 60; ++i)
    all[i] = x * i;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 60; ++i) {
    sum += all[i];
    __asm__ volatile("" : "+v"(all[i]));
  }
#pragma unroll
  for (int i = 0; i < 60; ++i)
    sum += all[i];
  return sum;
}
__device__ function other_table[2] = {with_many_registers, far};

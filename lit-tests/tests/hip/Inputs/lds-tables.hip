// LDS behind calls: kernels with different sets of variables, so that functions find theirs in a table.
#include "hip.h"
__shared__ int first[100], second[50], third[200];
__device__ __attribute__((noinline)) void use_first(int i) { first[i] += 1; first[99] = i; }
__device__ __attribute__((noinline)) void use_second(int i) { second[i] += 1; second[49] += i; }
__device__ __attribute__((noinline)) void use_third(int i) { third[i] += 1; third[199] = 1; }
__device__ __attribute__((noinline)) void use_both(int i) { use_first(i); use_second(i); }
__global__ void one(int *p) { use_first(p[0]); p[1] = first[p[2]]; }
__global__ void two(int *p) { use_second(p[0]); use_third(p[1]); p[1] = second[p[2]]; }
__global__ void tail(int *p) { use_both(p[0]); p[2] = first[p[3]]; }
__global__ void own(int *p) {
  use_third(p[0]);
  __shared__ double tile[77];
  tile[p[1] & 63] = p[2];
  tile[76] = 2;
  p[3] = tile[p[4]];
}

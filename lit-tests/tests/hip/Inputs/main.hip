#include "hip.h"
__device__ int scaled(int);
__device__ int counter = 3;
__constant__ int table[4] = {1, 2, 3, 4};
__managed__ int shared_with_host = 7;
__global__ void sum(int *values) {
  __shared__ int tile[64];
  int lane = __builtin_amdgcn_workitem_id_x();
  tile[lane] = values[lane];
  __builtin_amdgcn_s_barrier();
  values[lane] = scaled(tile[63 - lane]) + table[lane & 3] + counter + shared_with_host;
}
int main() { sum<<<1, 64>>>(nullptr); }

// A reduction that two translation units instantiate: partly with the same arguments, partly not.
#pragma once

#include "device.cuh"

struct Sum {
  static constexpr double identity = 0;
  __device__ static double combine(double a, double b) { return a + b; }
};

struct Max {
  static constexpr double identity = -1e300;
  __device__ static double combine(double a, double b) { return a > b ? a : b; }
};

// One block; its dynamic shared memory holds one value for each thread.
template <typename Op> __global__ void reduce(const double *values, int count, double *result) {
  extern __shared__ double scratch[];
  double mine = Op::identity;
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    mine = Op::combine(mine, values[i]);
  scratch[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half)
      scratch[threadIdx.x] = Op::combine(scratch[threadIdx.x], scratch[threadIdx.x + half]);
    __syncthreads();
  }
  if (threadIdx.x == 0)
    *result = scratch[0];
}

template <typename Op> double reduce_on_device(const double *values, int count) {
  constexpr int threads = 256;
  double *device_result = nullptr, result = 0;
  check_cuda(cudaMalloc(&device_result, sizeof(double)), "allocate a reduction's result");
  reduce<Op><<<1, threads, threads * sizeof(double)>>>(values, count, device_result);
  check_cuda(cudaGetLastError(), "launch reduce");
  check_cuda(cudaMemcpy(&result, device_result, sizeof result, cudaMemcpyDeviceToHost), "read a reduction's result");
  check_cuda(cudaFree(device_result), "free a reduction's result");
  return result;
}

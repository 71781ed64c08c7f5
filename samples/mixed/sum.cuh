// A sum by CUB, which either compiler instantiates for itself.
#pragma once

#include "device.cuh"

#include <cub/device/device_reduce.cuh>

static double sum_by_cub(const double *values, int count) {
  double *device_result = nullptr, result = 0;
  check_cuda(cudaMalloc(&device_result, sizeof result), "allocate a sum");
  void *scratch = nullptr;
  size_t size = 0;
  check_cuda(cub::DeviceReduce::Sum(scratch, size, values, device_result, count), "size the sum");
  check_cuda(cudaMalloc(&scratch, size), "allocate the scratch of a sum");
  check_cuda(cub::DeviceReduce::Sum(scratch, size, values, device_result, count), "sum");
  check_cuda(cudaMemcpy(&result, device_result, sizeof result, cudaMemcpyDeviceToHost), "read a sum");
  check_cuda(cudaFree(scratch), "free the scratch of a sum");
  check_cuda(cudaFree(device_result), "free a sum");
  return result;
}

// nvcc: the energy of the pendulums, and a look at everything from this compiler's side.
#include "sum.cuh"
#include "view.h"

__global__ void energies(const Pendulum *pendulums, int count, double *result) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    result[i] = pendulums[i].speed * pendulums[i].speed / 2 + potential_energy(pendulums[i].angle, i);
}

double sum_by_nvcc(const double *values, int count) { return sum_by_cub(values, count); }

double find_fastest(const Pendulum *pendulums, int count) {
  double *device_result = nullptr, result = 0;
  check_cuda(cudaMalloc(&device_result, sizeof result), "allocate the largest speed");
  fastest<<<1, block>>>(pendulums, count, device_result);
  check_cuda(cudaGetLastError(), "launch fastest");
  check_cuda(cudaMemcpy(&result, device_result, sizeof result, cudaMemcpyDeviceToHost), "read the largest speed");
  check_cuda(cudaFree(device_result), "free the largest speed");
  return result;
}

View view_of_nvcc() { return view_of_this_compiler(); }

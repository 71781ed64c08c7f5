#include <cuda_runtime.h>

__device__ float scaled(float value);

__global__ void scale_all(float *values) { values[threadIdx.x] = scaled(values[threadIdx.x]); }

// What the program calls. Returns the error of the CUDA runtime, 0 for success.
extern "C" int scale(float *values, int count) {
  float *device = nullptr;
  size_t size = count * sizeof(float);
  cudaError_t error = cudaMalloc(&device, size);
  if (error != cudaSuccess)
    return error;
  error = cudaMemcpy(device, values, size, cudaMemcpyHostToDevice);
  if (error == cudaSuccess) {
    scale_all<<<1, count>>>(device);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess)
    error = cudaMemcpy(values, device, size, cudaMemcpyDeviceToHost);
  cudaFree(device);
  return error;
}

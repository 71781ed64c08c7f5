// Noise by counter: four rounds of a Feistel network.
#include "shared.cuh"

static __constant__ unsigned keys[4] = {0x9e3779b9u, 0x85ebca6bu, 0xc2b2ae35u, 0x27d4eb2fu};

__device__ unsigned noise(unsigned counter, unsigned stream) {
  unsigned left = counter, right = stream;
#pragma unroll
  for (int round = 0; round < 4; ++round) {
    unsigned next = left ^ (__umulhi(right ^ keys[round], 0xd2511f53u) + right * 0xcd9e8d57u);
    left = right;
    right = next;
  }
  return left ^ right;
}

__device__ float uniform_noise(unsigned counter, unsigned stream) { return noise(counter, stream) * 2.3283064e-10f; }

__global__ void fill_noise(float *out, int count, unsigned stream) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    out[i] = uniform_noise(unsigned(i), stream);
}

// nvcc: what acts on a pendulum, and the steps of the run, whose kernel clang compiles.
#include "device.cuh"

__constant__ Air air;
__device__ unsigned long long evaluations = 0;

__device__ double spring_force(double angle) { return -4 * angle; }

__device__ ForceFn forces[FORCE_COUNT] = {weight_force, spring_force};

__global__ void slow_down(Pendulum *pendulums, int count, double factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    pendulums[i].speed *= factor;
}

void run_steps(Pendulum *pendulums, int count, int steps) {
  for (int step = 0; step < steps; ++step)
    swing<<<blocks(count), block>>>(pendulums, count);
  check_cuda(cudaGetLastError(), "launch swing");
}

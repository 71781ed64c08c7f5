// clang: moves the pendulums, under forces and drag of which nvcc compiles a part.
#include "device.cuh"

#include <cub/block/block_reduce.cuh>

__device__ unsigned long long swings = 0;

__device__ double weight_force(double angle) { return -9.81 * sin(angle); }

__device__ double potential_energy(double angle, int i) {
  return i % FORCE_COUNT == FORCE_WEIGHT ? 9.81 * (1 - cos(angle)) : 2 * angle * angle;
}

__global__ void swing(Pendulum *pendulums, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  Pendulum pendulum = pendulums[i];
  double before = pendulum.angle;
  double force = forces[i % FORCE_COUNT](pendulum.angle) - drag(pendulum.speed - air.wind);
  pendulum.speed += air.time_step * force;
  pendulum.angle += air.time_step * pendulum.speed;
  pendulums[i] = pendulum;
  if ((before < 0) != (pendulum.angle < 0))
    atomicAdd(&swings, 1ull);
  atomicAdd(&evaluations, 1ull);
}

// One block.
__global__ void fastest(const Pendulum *pendulums, int count, double *result) {
  using Reduce = cub::BlockReduce<double, block>;
  __shared__ Reduce::TempStorage scratch;
  double mine = 0;
  for (int i = threadIdx.x; i < count; i += block)
    mine = fmax(mine, fabs(pendulums[i].speed));
  auto larger = [](double a, double b) { return a > b ? a : b; };
  double largest = Reduce(scratch).Reduce(mine, larger);
  if (threadIdx.x == 0)
    *result = largest;
}

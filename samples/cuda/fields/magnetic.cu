// A field that nothing here uses, as libraries have them: no link needs this member.
#include "../device.cuh"

__device__ unsigned long long magnetic_evaluations = 0;

__device__ double2 magnetic_force(const Particle &particle, double field) {
  atomicAdd(&magnetic_evaluations, 1ull);
  return make_double2(field * particle.vy, -field * particle.vx);
}

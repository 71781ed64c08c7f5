// The forces a particle can feel, and the table that chooses one: device function pointers,
// one of them to a function that only the static library defines.
#include "device.cuh"

__device__ double2 spring_force(const Particle &particle) {
  return make_double2(plate.stiffness * (0.5 - particle.x), plate.stiffness * (0.5 - particle.y));
}

__device__ ForceFn force_table[FORCE_COUNT] = {spring_force, screened_force};

// A charge in the middle of the plate, smeared out (erf) and screened (exp).
#include "../device.cuh"

__device__ double2 screened_force(const Particle &particle) {
  double dx = particle.x - 0.5, dy = particle.y - 0.5;
  double distance = sqrt(dx * dx + dy * dy) + 1e-3;
  double strength = plate.charge * erf(distance / plate.screening) * exp(-distance / plate.screening) / distance;
  return make_double2(strength * dx, strength * dy);
}

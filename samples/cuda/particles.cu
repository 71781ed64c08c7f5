// Particles moving over the plate, each under the force that its table entry names.
#include "reduce.cuh"

#include <cstdio>

__device__ unsigned long long bounces = 0;

constexpr int block = 128;

static __device__ unsigned long long work_done;

// Ahead of the kernels: clang 22 names a static device variable by whether the host reads it, and
// must have seen that before it compiles the first use on the device.
unsigned long long particles_moved() {
  unsigned long long count = 0;
  check_cuda(cudaMemcpyFromSymbol(&count, work_done, sizeof count), "read particles.cu's work_done");
  return count;
}

static __device__ void reflect(double &position, double &velocity) {
  if (position >= 0 && position <= 1)
    return;
  position = position < 0 ? -position : 2 - position;
  velocity = -velocity;
  atomicAdd(&bounces, 1ull);
}

static __device__ double heat_below(const Particle &particle, const double *heat) {
  int last = plate.width - 1;
  int x = min(max(static_cast<int>(particle.x * plate.width), 0), last);
  int y = min(max(static_cast<int>(particle.y * plate.width), 0), last);
  return heat[y * plate.width + x];
}

static __global__ void move(Particle *particles, int count, const double *heat, int step) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0 && step == 0)
    printf("device: %d particles over a plate of %d x %d cells\n", count, plate.width, plate.width);
  if (i >= count)
    return;

  Particle particle = particles[i];
  double local_heat = heat_below(particle, heat);
  double2 force = force_table[i % FORCE_COUNT](particle);
  double drag = power_law_drag(sqrt(particle.vx * particle.vx + particle.vy * particle.vy), local_heat);
  double kick = thermal_kick(local_heat, i, step);
  particle.vx += plate.time_step * (force.x - drag * particle.vx + kick);
  particle.vy += plate.time_step * (force.y - drag * particle.vy - kick);
  particle.x += plate.time_step * particle.vx;
  particle.y += plate.time_step * particle.vy;
  reflect(particle.x, particle.vx);
  reflect(particle.y, particle.vy);
  particles[i] = particle;
  atomicAdd(&work_done, 1ull);
}

static __global__ void kinetic_energies(const Particle *particles, int count, double *energies) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    energies[i] = 0.5 * (particles[i].vx * particles[i].vx + particles[i].vy * particles[i].vy);
}

void move_particles(Particle *particles, int count, const double *heat, int step) {
  move<<<(count + block - 1) / block, block>>>(particles, count, heat, step);
  check_cuda(cudaGetLastError(), "launch move");
}

double kinetic_energy(const Particle *particles, double *scratch, int count) {
  kinetic_energies<<<(count + block - 1) / block, block>>>(particles, count, scratch);
  check_cuda(cudaGetLastError(), "launch kinetic_energies");
  return reduce_on_device<Sum>(scratch, count);
}

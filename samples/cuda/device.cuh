// Device symbols that cross translation units. Each is defined in exactly one file, named beside it.
#pragma once

#include "plate.h"

#include <cuda_runtime.h>

extern __constant__ Plate plate;                   // main.cu; set by the host
extern __device__ unsigned long long bounces;      // particles.cu; read back by the host
using ForceFn = double2 (*)(const Particle &particle);
extern __device__ ForceFn force_table[FORCE_COUNT]; // forces.cu; called through by particles.cu

__device__ double2 spring_force(const Particle &particle); // forces.cu

// libfields.a. No host code refers to these three: only the device link can pull their members in.
__device__ double2 screened_force(const Particle &particle);      // fields/screened.cu
__device__ double power_law_drag(double speed, double heat);      // fields/drag.cu
__device__ double thermal_kick(double heat, int particle, int step); // fields/kick.cu

// Host side of the kernels.
void diffuse(const double *from, double *to, int width);                              // diffuse.cu
double total_heat(const double *heat, int cells);                                     // diffuse.cu
double peak_heat(const double *heat, int cells);                                      // diffuse.cu
unsigned long long cells_updated();                                                   // diffuse.cu
void move_particles(Particle *particles, int count, const double *heat, int step);    // particles.cu
double kinetic_energy(const Particle *particles, double *scratch, int count);         // particles.cu
unsigned long long particles_moved();                                                 // particles.cu

// Prints what went wrong and ends the program with FAIL.
void check_cuda(cudaError_t status, const char *what); // main.cu

// Device symbols that cross translation units, and thereby the border between clang and nvcc. Each is defined in exactly one
// file, named beside it.
//
//   clang: main.cu, swing.cu        nvcc: forces.cu, energy.cu, air/drag.cu (in libair.a)
#pragma once

#include "pendulum.h"

#include <cstddef>
#include <cuda_runtime.h>

extern __constant__ Air air;                   // forces.cu; main.cu sets it, swing.cu and air/drag.cu read it
extern __device__ unsigned long long swings;   // swing.cu; counted there, read back by main.cu and energy.cu
extern __device__ unsigned long long evaluations; // forces.cu; counted by swing.cu, read back by main.cu and energy.cu
using ForceFn = double (*)(double angle);
extern __device__ ForceFn forces[FORCE_COUNT]; // forces.cu; one function of each compiler, called through by swing.cu

__device__ double spring_force(double angle);            // forces.cu, called through the table
__device__ double weight_force(double angle);            // swing.cu, named by the table in forces.cu
__device__ double potential_energy(double angle, int i); // swing.cu, called by energy.cu
__device__ double drag(double speed); // air/drag.cu, called by swing.cu; no host code refers to that member

__global__ void swing(Pendulum *pendulums, int count);                          // swing.cu, launched by forces.cu
__global__ void energies(const Pendulum *pendulums, int count, double *result); // energy.cu, launched by main.cu
__global__ void fastest(const Pendulum *pendulums, int count, double *result);  // swing.cu, launched by energy.cu
__global__ void slow_down(Pendulum *pendulums, int count, double factor);       // forces.cu, launched by main.cu

// Host side.
void run_steps(Pendulum *pendulums, int count, int steps); // forces.cu
double find_fastest(const Pendulum *pendulums, int count); // energy.cu
double sum_by_nvcc(const double *values, int count);       // energy.cu
double sum_by_clang(const double *values, int count);      // main.cu

// What one compiler's host code learns of the kernels and variables of both.
struct View {
  int registers[4] = {}; // of swing, energies, fastest and slow_down
  unsigned long long swings = 0, evaluations = 0;
  double density = 0;
};
View view_of_clang(); // main.cu
View view_of_nvcc();  // energy.cu

// Prints what went wrong and ends the program with FAIL.
void check_cuda(cudaError_t status, const char *what); // main.cu

constexpr int block = 128;
inline int blocks(int count) { return (count + block - 1) / block; }

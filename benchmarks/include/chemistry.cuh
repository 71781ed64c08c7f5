// One implicit step of a reaction network with everything unrolled, as generated mechanisms are: kernels that take an
// assembler far longer than all others.
#pragma once

#include "shared.cuh"

/// Arrhenius' coefficients; every file has its own copy.
static __constant__ double exponents[16] = {0.0, 0.5,  -1.0, 2.7, -0.6, 1.5, -2.0, 0.2,
                                            1.1, -0.4, 2.0,  0.7, -1.4, 0.9, -0.1, 1.6};
static __constant__ double barriers[16] = {8.4e3, 3.1e3, 1.7e4, 6.2e3, 0.0, 1.1e4, 4.0e2, 2.9e4,
                                           7.7e3, 5.2e3, 1.3e4, 9.1e3, 2.2e3, 1.9e4, 3.6e3, 6.8e3};

template <int SPECIES, int REACTIONS>
__global__ void __launch_bounds__(128) react(double *mass, const double *temperatures, double step, int cells) {
  int cell = blockIdx.x * blockDim.x + threadIdx.x;
  if (cell >= cells)
    return;
  double y[SPECIES], rate[SPECIES] = {}, matrix[SPECIES][SPECIES] = {};
  double temperature = temperatures[cell], logarithm = log(temperature), inverse = 1.0 / temperature;
#pragma unroll
  for (int s = 0; s < SPECIES; ++s)
    y[s] = mass[s * cells + cell];
#pragma unroll
  for (int r = 0; r < REACTIONS; ++r) {
    constexpr int STRIDE = SPECIES > 4 ? 3 : 1;
    int a = r % SPECIES, b = (r * STRIDE + 1) % SPECIES, c = (r * 5 + 2) % SPECIES;
    double forward = exp(exponents[r % 16] * logarithm - barriers[r % 16] * inverse);
    double third = closed(r, y[c], inverse), q = forward * y[a] * y[b] * third;
    rate[a] -= q, rate[b] -= q, rate[c] += 2 * q;
    matrix[a][a] += forward * y[b], matrix[a][b] += forward * y[a];
    matrix[b][a] += forward * y[b], matrix[b][b] += forward * y[a];
    matrix[c][a] -= 2 * forward * y[b], matrix[c][b] -= 2 * forward * y[a];
  }
#pragma unroll
  for (int s = 0; s < SPECIES; ++s)
    matrix[s][s] += 1.0 / step;
  // Elimination without pivots: the matrix is diagonally dominant for a small step.
#pragma unroll
  for (int k = 0; k < SPECIES; ++k)
#pragma unroll
    for (int i = k + 1; i < SPECIES; ++i) {
      double factor = matrix[i][k] / matrix[k][k];
#pragma unroll
      for (int j = k + 1; j < SPECIES; ++j)
        matrix[i][j] -= factor * matrix[k][j];
      rate[i] -= factor * rate[k];
    }
#pragma unroll
  for (int i = SPECIES - 1; i >= 0; --i) {
#pragma unroll
    for (int j = i + 1; j < SPECIES; ++j)
      rate[i] -= matrix[i][j] * rate[j];
    rate[i] /= matrix[i][i];
    mass[i * cells + cell] = y[i] + rate[i];
  }
}

#define REACT(SPECIES, REACTIONS)                                                                                      \
  template __global__ void react<SPECIES, REACTIONS>(double *, const double *, double, int);                           \
  KEEP(react<SPECIES, REACTIONS>)

// What every translation unit may use and one of benchmarks/library/ defines: the device code is linked across files.
#pragma once

struct State {
  double density;
  double energy;
};

struct Closure;

/// Tiles that kernels of all files have finished (library/counters.cu).
extern __device__ unsigned long long tiles_done;
/// How the work is scaled; the host sets it (library/counters.cu).
extern __constant__ float work_scale;

__device__ void count_tile(unsigned items);
/// Reports through printf, and trips an assertion, when a tile holds what cannot be (library/counters.cu).
__device__ void check_tile(bool valid, int tile);

/// Tabulated equation of state (library/state.cu).
__device__ double pressure(State state);
__device__ double sound_speed(State state);
__device__ float relaxation(float x);

/// Counter-based noise (library/noise.cu).
__device__ unsigned noise(unsigned counter, unsigned stream);
__device__ float uniform_noise(unsigned counter, unsigned stream);

/// Closure models, called through pointers and virtual functions (library/closures.cu).
__device__ double closed(int model, double a, double b);
__device__ double limited(int limiter, double left, double right);

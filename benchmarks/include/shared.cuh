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

/// nvcc's device link drops the kernels that no host code refers to; nothing here launches most of them. clang keeps them.
#if defined(__NVCC__) && !defined(__CUDA_ARCH__)
#define KEEP_NAMED(NAME, ...) __attribute__((used)) static const void *const NAME = (const void *)(__VA_ARGS__);
#define KEEP_NUMBERED(NUMBER, ...) KEEP_NAMED(kept_##NUMBER, __VA_ARGS__)
#define KEEP_AT(NUMBER, ...) KEEP_NUMBERED(NUMBER, __VA_ARGS__)
#define KEEP(...) KEEP_AT(__COUNTER__, __VA_ARGS__)
#else
#define KEEP(...)
#endif

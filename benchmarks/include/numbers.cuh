// Thrust's complex and random numbers, in kernels of their own.
#pragma once

#include <thrust/complex.h>
#include <thrust/random.h>

#include "shared.cuh"

struct Power {
  template <class C> __device__ C operator()(C z) const { return pow(z, C(2.5)); }
};
struct Wave {
  template <class C> __device__ C operator()(C z) const { return exp(z) * sin(z); }
};
struct Inverse {
  template <class C> __device__ C operator()(C z) const { return atan(z) / sqrt(z); }
};
struct Hyperbolic {
  template <class C> __device__ C operator()(C z) const { return tanh(z) + log(z); }
};

template <class T, class Map, int STEPS> __global__ void iterate(thrust::complex<T> *points, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    thrust::complex<T> z = points[i];
    for (int step = 0; step < STEPS && thrust::norm(z) < T(1e6); ++step)
      z = Map()(z) + points[(i + step) % count];
    points[i] = z * T(work_scale);
  }
}

template <class Engine, template <class> class Distribution, class T>
__global__ void sample(T *sums, int samples, unsigned seed) {
  unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  Engine engine(seed + noise(thread, 3));
  engine.discard(thread % 64u);
  Distribution<T> draw(T(1), T(5));
  T sum = 0;
  for (int i = 0; i < samples; ++i)
    sum += draw(engine);
  sums[thread] = sum;
}

#define ITERATE(T, MAP, STEPS)                                                                                         \
  template __global__ void iterate<T, MAP, STEPS>(thrust::complex<T> *, int);                                          \
  KEEP(iterate<T, MAP, STEPS>)
#define SAMPLE(ENGINE, DISTRIBUTION, T)                                                                                \
  template __global__ void sample<thrust::ENGINE, thrust::DISTRIBUTION, T>(T *, int, unsigned);                        \
  KEEP(sample<thrust::ENGINE, thrust::DISTRIBUTION, T>)

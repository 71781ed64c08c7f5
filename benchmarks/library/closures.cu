// Models that a number chooses at run time: through virtual functions and through a table of function pointers.
#include "shared.cuh"

struct Closure {
  __device__ virtual double value(double a, double b) const = 0;
};

struct Linear : Closure {
  __device__ double value(double a, double b) const override { return a * 0.5 + b; }
};

struct Arrhenius : Closure {
  __device__ double value(double a, double b) const override { return a * exp(-b * 1.2e3); }
};

struct Saturated : Closure {
  __device__ double value(double a, double b) const override { return a / (1.0 + fabs(b) * a); }
};

__device__ double closed(int model, double a, double b) {
  Linear linear;
  Arrhenius arrhenius;
  Saturated saturated;
  const Closure *const models[3] = {&linear, &arrhenius, &saturated};
  return models[unsigned(model) % 3u]->value(a, b);
}

static __device__ double minmod(double a, double b) { return a * b <= 0 ? 0 : fabs(a) < fabs(b) ? a : b; }
static __device__ double van_leer(double a, double b) { return a * b <= 0 ? 0 : 2 * a * b / (a + b); }
static __device__ double superbee(double a, double b) {
  double first = minmod(2 * a, b), second = minmod(a, 2 * b);
  return fabs(first) < fabs(second) ? second : first;
}

__device__ double (*const limiters[3])(double, double) = {minmod, van_leer, superbee};

__device__ double limited(int limiter, double left, double right) {
  return limiters[unsigned(limiter) % 3u](left, right);
}

__global__ void tabulate_closures(double *out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    out[i] = closed(i, double(i), 0.25) + limited(i, double(i), 1.5);
}

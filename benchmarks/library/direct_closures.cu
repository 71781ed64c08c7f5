// The models of closures.cu without pointers: every call is direct.
#include "shared.cuh"

static __device__ double linear(double a, double b) { return a * 0.5 + b; }
static __device__ double arrhenius(double a, double b) { return a * exp(-b * 1.2e3); }
static __device__ double saturated(double a, double b) { return a / (1.0 + fabs(b) * a); }

__device__ double closed(int model, double a, double b) {
  switch (unsigned(model) % 3u) {
  case 0:
    return linear(a, b);
  case 1:
    return arrhenius(a, b);
  default:
    return saturated(a, b);
  }
}

static __device__ double minmod(double a, double b) { return a * b <= 0 ? 0 : fabs(a) < fabs(b) ? a : b; }
static __device__ double van_leer(double a, double b) { return a * b <= 0 ? 0 : 2 * a * b / (a + b); }
static __device__ double superbee(double a, double b) {
  double first = minmod(2 * a, b), second = minmod(a, 2 * b);
  return fabs(first) < fabs(second) ? second : first;
}

__device__ double limited(int limiter, double left, double right) {
  switch (unsigned(limiter) % 3u) {
  case 0:
    return minmod(left, right);
  case 1:
    return van_leer(left, right);
  default:
    return superbee(left, right);
  }
}

__global__ void tabulate_closures(double *out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    out[i] = closed(i, double(i), 0.25) + limited(i, double(i), 1.5);
}

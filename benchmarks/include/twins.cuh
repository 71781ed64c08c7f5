// Kernels in pairs that differ in nothing but their names, as instances for types that make no difference do.
#pragma once

#include "shared.cuh"

struct First {};
struct Second {};

template <int FORM, class TWIN> __global__ void relax_twin(const float *in, float *out, int count, int sweeps) {
  __shared__ float tile[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  float value = in[i], rate = float(FORM % 17 + 1) * 0.01f;
  tile[threadIdx.x % 256] = rate * float(FORM);
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    float pull = relaxation(value * float(FORM % 5 + 1)) - tile[(threadIdx.x + sweep) % 256] * value;
    if constexpr (FORM % 3 == 0)
      pull += uniform_noise(i, FORM) * rate;
    if constexpr (FORM % 4 == 1)
      pull -= __sinf(value + FORM);
    value += pull * work_scale;
  }
  out[i] = value;
}

#define RELAX(FORM, TWIN)                                                                                              \
  template __global__ void relax_twin<FORM, TWIN>(const float *, float *, int, int);                                   \
  KEEP(relax_twin<FORM, TWIN>)

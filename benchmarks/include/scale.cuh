// Many kernels of one size: a short iteration whose form depends on a number.
#pragma once

#include "shared.cuh"

template <int FORM> __global__ void relax_form(const float *in, float *out, int count, int sweeps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  float value = in[i], rate = float(FORM % 17 + 1) * 0.01f;
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    float pull = relaxation(value * float(FORM % 5 + 1)) - rate * value;
    if constexpr (FORM % 3 == 0)
      pull += uniform_noise(i, FORM) * rate;
    if constexpr (FORM % 4 == 1)
      pull -= __sinf(value + FORM);
    if constexpr (FORM % 7 == 2)
      pull *= float(limited(FORM, value, pull));
    value += pull * work_scale;
  }
  out[i] = value;
}

#define RELAX(FORM)                                                                                                    \
  template __global__ void relax_form<FORM>(const float *, float *, int, int);                                         \
  KEEP(relax_form<FORM>)

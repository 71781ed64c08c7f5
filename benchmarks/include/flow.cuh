// A finite-volume step on a grid, as simulation codes write it: plain CUDA C++ over shared closures and tables.
#pragma once

#include "shared.cuh"

/// What one file may change and no other sees.
#ifndef FLOW_SAFETY
#define FLOW_SAFETY 0.9
#endif

namespace flow {

/// Ghost cells on each side.
constexpr int GHOSTS = 3;

struct Grid {
  int cells, rows;
  double spacing, time_step;
};

template <class T> struct Primitive {
  T density, velocity, transverse, pressure, sound;
};

template <class T, int FIELDS> __device__ Primitive<T> primitive(const T *const (&fields)[FIELDS], int cell) {
  T density = fields[0][cell], velocity = fields[1][cell] / density, transverse = fields[2][cell] / density;
  T kinetic = T(0.5) * (velocity * velocity + transverse * transverse);
  State state = {double(density), double(fields[3][cell] / density - kinetic)};
  return {density, velocity, transverse, T(pressure(state)), T(sound_speed(state))};
}

/// Reconstruction of order 1, 2 (limited slopes) or 5 (WENO with Jiang and Shu's weights).
template <class T, int ORDER> __device__ T reconstructed(T a, T b, T c, T d, T e, int limiter) {
  if constexpr (ORDER == 1) {
    return c;
  } else if constexpr (ORDER == 2) {
    return c + T(0.5) * T(limited(limiter, double(c - b), double(d - c)));
  } else {
    T p0 = (2 * a - 7 * b + 11 * c) / 6, p1 = (-b + 5 * c + 2 * d) / 6, p2 = (2 * c + 5 * d - e) / 6;
    T s0 = T(13.0 / 12) * (a - 2 * b + c) * (a - 2 * b + c) + T(0.25) * (a - 4 * b + 3 * c) * (a - 4 * b + 3 * c);
    T s1 = T(13.0 / 12) * (b - 2 * c + d) * (b - 2 * c + d) + T(0.25) * (b - d) * (b - d);
    T s2 = T(13.0 / 12) * (c - 2 * d + e) * (c - 2 * d + e) + T(0.25) * (3 * c - 4 * d + e) * (3 * c - 4 * d + e);
    T w0 = T(0.1) / ((T(1e-6) + s0) * (T(1e-6) + s0)), w1 = T(0.6) / ((T(1e-6) + s1) * (T(1e-6) + s1));
    T w2 = T(0.3) / ((T(1e-6) + s2) * (T(1e-6) + s2));
    return (w0 * p0 + w1 * p1 + w2 * p2) / (w0 + w1 + w2);
  }
}

template <class T, int ORDER, int FIELDS>
__device__ void flux_at(const T *const (&fields)[FIELDS], int cell, int stride, int limiter, T (&flux)[FIELDS]) {
  T left[FIELDS], right[FIELDS];
#pragma unroll
  for (int field = 0; field < FIELDS; ++field) {
    const T *f = fields[field] + cell;
    left[field] =
        reconstructed<T, ORDER>(f[-3 * stride], f[-2 * stride], f[-stride], f[0], f[stride], limiter);
    right[field] = reconstructed<T, ORDER>(f[2 * stride], f[stride], f[0], f[-stride], f[-2 * stride], limiter);
  }
  Primitive<T> l = primitive<T, FIELDS>(fields, cell - stride), r = primitive<T, FIELDS>(fields, cell);
  // The outermost waves of Harten, Lax and van Leer's solver.
  T slow = min(l.velocity - l.sound, r.velocity - r.sound), fast = max(l.velocity + l.sound, r.velocity + r.sound);
#pragma unroll
  for (int field = 0; field < FIELDS; ++field) {
    T from_left = l.velocity * left[field], from_right = r.velocity * right[field];
    if (field == 1)
      from_left += l.pressure, from_right += r.pressure;
    if (field == 3)
      from_left += l.pressure * l.velocity, from_right += r.pressure * r.velocity;
    T middle = (fast * from_left - slow * from_right + slow * fast * (right[field] - left[field])) / (fast - slow);
    flux[field] = slow > 0 ? from_left : fast < 0 ? from_right : middle;
  }
}

template <class T, int ORDER, int FIELDS, int DIRECTIONS>
__global__ void advance(Grid grid, const T *old_fields, T *new_fields, int limiter) {
  int column = blockIdx.x * blockDim.x + threadIdx.x + GHOSTS, row = blockIdx.y * blockDim.y + threadIdx.y + GHOSTS;
  if (column >= grid.cells - GHOSTS || row >= grid.rows - GHOSTS)
    return;
  int size = grid.cells * grid.rows, cell = row * grid.cells + column;
  const T *fields[FIELDS];
  for (int field = 0; field < FIELDS; ++field)
    fields[field] = old_fields + field * size;
  T change[FIELDS] = {};
#pragma unroll
  for (int direction = 0; direction < DIRECTIONS; ++direction) {
    int stride = direction == 0 ? 1 : grid.cells;
    T in[FIELDS], out[FIELDS];
    flux_at<T, ORDER, FIELDS>(fields, cell, stride, limiter, in);
    flux_at<T, ORDER, FIELDS>(fields, cell + stride, stride, limiter, out);
    for (int field = 0; field < FIELDS; ++field)
      change[field] += in[field] - out[field];
  }
  for (int field = 0; field < FIELDS; ++field) {
    T source = field > 3 ? T(closed(field, double(fields[field][cell]), grid.time_step)) : T(0);
    T ratio = T(FLOW_SAFETY * grid.time_step / grid.spacing);
    new_fields[field * size + cell] = fields[field][cell] + ratio * change[field] + T(grid.time_step) * source;
  }
  if (threadIdx.x == 0 && threadIdx.y == 0)
    count_tile(blockDim.x * blockDim.y);
}

} // namespace flow

#define ADVANCE(T, ORDER, FIELDS, DIRECTIONS)                                                                          \
  template __global__ void flow::advance<T, ORDER, FIELDS, DIRECTIONS>(flow::Grid, const T *, T *, int);               \
  KEEP(flow::advance<T, ORDER, FIELDS, DIRECTIONS>)

// Operators for reductions and scans; some reach code of other translation units.
#pragma once

#include <cuda/functional>
#include <cuda/std/functional>

#include "shared.cuh"

struct Vector3 {
  float x, y, z;
  __host__ __device__ bool operator==(const Vector3 &other) const {
    return x == other.x && y == other.y && z == other.z;
  }
};

struct Moments {
  double count, mean, square;
};

template <class T> __host__ __device__ inline T from_index(unsigned i) { return T(i % 1021u); }
template <> __host__ __device__ inline Vector3 from_index<Vector3>(unsigned i) {
  return {float(i % 7u), float(i % 11u), float(i % 13u)};
}
template <> __host__ __device__ inline Moments from_index<Moments>(unsigned i) { return {1.0, double(i % 97u), 0.0}; }

template <class T> struct Sum {
  __host__ __device__ T operator()(const T &a, const T &b) const { return a + b; }
};
template <> struct Sum<Vector3> {
  __host__ __device__ Vector3 operator()(const Vector3 &a, const Vector3 &b) const {
    return {a.x + b.x, a.y + b.y, a.z + b.z};
  }
};
/// Chan's rule for merging two samples.
template <> struct Sum<Moments> {
  __host__ __device__ Moments operator()(const Moments &a, const Moments &b) const {
    double count = a.count + b.count, delta = b.mean - a.mean;
    if (count == 0.0)
      return a;
    return {count, a.mean + delta * b.count / count, a.square + b.square + delta * delta * a.count * b.count / count};
  }
};

template <class T> struct Largest {
  __host__ __device__ T operator()(const T &a, const T &b) const { return b < a ? a : b; }
};
template <> struct Largest<Vector3> {
  __host__ __device__ Vector3 operator()(const Vector3 &a, const Vector3 &b) const {
    return {a.x < b.x ? b.x : a.x, a.y < b.y ? b.y : a.y, a.z < b.z ? b.z : a.z};
  }
};
template <> struct Largest<Moments> {
  __host__ __device__ Moments operator()(const Moments &a, const Moments &b) const { return a.mean < b.mean ? b : a; }
};

/// Leans on the tables of library/state.cu.
template <class T> struct Relaxed {
  __device__ T operator()(const T &a, const T &b) const { return T(a + T(relaxation(float(b)) * work_scale)); }
};
template <> struct Relaxed<Vector3> {
  __device__ Vector3 operator()(const Vector3 &a, const Vector3 &b) const {
    return {a.x + relaxation(b.x), a.y + relaxation(b.y), a.z * work_scale + relaxation(b.z)};
  }
};
template <> struct Relaxed<Moments> {
  __device__ Moments operator()(const Moments &a, const Moments &b) const {
    return {a.count + b.count, a.mean + relaxation(float(b.mean)), a.square + closed(int(b.count), a.mean, b.mean)};
  }
};

struct Less {
  template <class T> __host__ __device__ bool operator()(const T &a, const T &b) const { return a < b; }
  __host__ __device__ bool operator()(const Vector3 &a, const Vector3 &b) const {
    return a.x < b.x || (a.x == b.x && (a.y < b.y || (a.y == b.y && a.z < b.z)));
  }
};

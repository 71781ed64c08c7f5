// Algorithms of Thrust on the device, with functors that reach other translation units.
#pragma once

#include <thrust/execution_policy.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/tuple.h>
#include <thrust/unique.h>

#include "operators.cuh"

template <class T> struct Jitter {
  unsigned stream;
  __device__ T operator()(T value) const { return T(value + T(16 * uniform_noise(unsigned(value), stream))); }
};

template <class T> struct Pressure {
  __device__ double operator()(const thrust::tuple<T, T> &pair) const {
    return pressure({double(thrust::get<0>(pair)), double(thrust::get<1>(pair))});
  }
};

#define THRUST_JITTER(NAME, T)                                                                                         \
  void NAME(T *first, T *last, unsigned stream) {                                                                      \
    thrust::transform(thrust::device, first, last, first, Jitter<T>{stream});                                          \
  }
#define THRUST_PRESSURE(NAME, T)                                                                                       \
  double NAME(const T *densities, const T *energies, int count) {                                                      \
    auto pairs = thrust::make_zip_iterator(thrust::make_tuple(densities, energies));                                   \
    return thrust::transform_reduce(thrust::device, pairs, pairs + count, Pressure<T>(), 0.0, Sum<double>());          \
  }
#define THRUST_SORT(NAME, KEY, VALUE)                                                                                  \
  void NAME(KEY *first, KEY *last, VALUE *values) { thrust::sort_by_key(thrust::device, first, last, values, Less()); }
#define THRUST_SUMS(NAME, KEY, T)                                                                                      \
  void NAME(const KEY *first, const KEY *last, const T *in, KEY *keys, T *sums) {                                      \
    thrust::reduce_by_key(thrust::device, first, last, in, keys, sums);                                                \
  }
#define THRUST_SCAN(NAME, KEY, T)                                                                                      \
  void NAME(const KEY *first, const KEY *last, const T *in, T *out) {                                                  \
    thrust::inclusive_scan_by_key(thrust::device, first, last, in, out);                                               \
  }

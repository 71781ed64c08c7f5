// Thrust within a thread: fancy iterators and sequential algorithms.
#pragma once

#include <thrust/binary_search.h>
#include <thrust/execution_policy.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/tuple.h>

#include "shared.cuh"

template <class T> struct Weighted {
  __device__ T operator()(const thrust::tuple<T, int> &pair) const {
    return thrust::get<0>(pair) * T(limited(thrust::get<1>(pair), double(thrust::get<0>(pair)), 1.0));
  }
};

/// A window of SIZE values that each thread sorts, scans and searches for itself.
template <class T, int SIZE> __global__ void windows(const T *in, T *out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i + SIZE > count)
    return;
  T window[SIZE], sums[SIZE];
  for (int k = 0; k < SIZE; ++k)
    window[k] = in[i + k];
  thrust::sort(thrust::seq, window, window + SIZE);
  thrust::inclusive_scan(thrust::seq, window, window + SIZE, sums);
  auto pairs = thrust::make_zip_iterator(thrust::make_tuple(window, thrust::make_counting_iterator(0)));
  auto weighted = thrust::make_transform_iterator(pairs, Weighted<T>());
  T dot = thrust::inner_product(thrust::seq, weighted, weighted + SIZE, sums, T(0));
  const T *place = thrust::lower_bound(thrust::seq, sums, sums + SIZE, sums[SIZE - 1] / T(2));
  out[i] = dot + T(place - sums);
}

#define WINDOWS(T, SIZE)                                                                                               \
  template __global__ void windows<T, SIZE>(const T *, T *, int);                                                      \
  KEEP(windows<T, SIZE>)

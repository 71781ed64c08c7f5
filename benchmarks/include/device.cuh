// The algorithms of CUB that span the device, with the kernels that CUB itself picks for the architecture.
#pragma once

#include <cub/device/device_histogram.cuh>
#include <cub/device/device_merge_sort.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

#include "operators.cuh"

struct Temporary {
  void *memory;
  size_t bytes;
};

#define DEVICE_REDUCE(NAME, T, OPERATOR)                                                                               \
  cudaError_t NAME(Temporary &temporary, const T *in, T *out, int count) {                                             \
    return cub::DeviceReduce::Reduce(temporary.memory, temporary.bytes, in, out, count, OPERATOR<T>(), T());           \
  }
#define DEVICE_SCAN(NAME, T, OPERATOR)                                                                                 \
  cudaError_t NAME(Temporary &temporary, const T *in, T *out, int count) {                                             \
    return cub::DeviceScan::InclusiveScan(temporary.memory, temporary.bytes, in, out, OPERATOR<T>(), count);           \
  }
#define DEVICE_RADIX_SORT(NAME, KEY, VALUE)                                                                            \
  cudaError_t NAME(Temporary &temporary, const KEY *keys, KEY *sorted, const VALUE *values, VALUE *moved, int count) { \
    return cub::DeviceRadixSort::SortPairs(temporary.memory, temporary.bytes, keys, sorted, values, moved, count);     \
  }
#define DEVICE_MERGE_SORT(NAME, KEY, VALUE)                                                                            \
  cudaError_t NAME(Temporary &temporary, KEY *keys, VALUE *values, int count) {                                        \
    return cub::DeviceMergeSort::SortPairs(temporary.memory, temporary.bytes, keys, values, count, Less());            \
  }
#define DEVICE_UNIQUE(NAME, T)                                                                                         \
  cudaError_t NAME(Temporary &temporary, const T *in, T *out, int *kept, int count) {                                  \
    return cub::DeviceSelect::Unique(temporary.memory, temporary.bytes, in, out, kept, count);                         \
  }
#define DEVICE_RUNS(NAME, T)                                                                                           \
  cudaError_t NAME(Temporary &temporary, const T *in, T *values, int *lengths, int *runs, int count) {                 \
    return cub::DeviceRunLengthEncode::Encode(temporary.memory, temporary.bytes, in, values, lengths, runs, count);    \
  }
#define DEVICE_HISTOGRAM(NAME, T)                                                                                      \
  cudaError_t NAME(Temporary &temporary, const T *in, int *bins, int levels, T low, T high, int count) {               \
    return cub::DeviceHistogram::HistogramEven(temporary.memory, temporary.bytes, in, bins, levels, low, high, count); \
  }

// The primitives of one warp: segmented sums, scans, exchanges and sorts.
#pragma once

#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

#include "operators.cuh"

template <class T, template <class> class Operator, int LANES, int ITEMS>
__global__ void warp_rows(const T *in, T *out, const int *heads, int row) {
  using Reduce = cub::WarpReduce<T, LANES>;
  using Scan = cub::WarpScan<T, LANES>;
  constexpr int GROUPS = 128 / LANES;
  __shared__ typename Reduce::TempStorage reduce[GROUPS];
  __shared__ typename Scan::TempStorage scan[GROUPS];
  int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  const T *source = in + (blockIdx.x * GROUPS + group) * row;
  T total = from_index<T>(0);
  for (int i = lane; i < row; i += LANES)
    total = Operator<T>()(total, source[i]);
  T segment = Reduce(reduce[group]).HeadSegmentedReduce(total, heads[threadIdx.x], Operator<T>());
  T prefix;
  Scan(scan[group]).InclusiveScan(segment, prefix, Operator<T>());
  out[blockIdx.x * blockDim.x + threadIdx.x] = prefix;
  if (lane == 0)
    count_tile(row);
}

template <class Key, int LANES, int ITEMS> __global__ void warp_sort(Key *keys) {
  using Sort = cub::WarpMergeSort<Key, ITEMS, LANES>;
  using Exchange = cub::WarpExchange<Key, ITEMS, LANES>;
  constexpr int GROUPS = 128 / LANES;
  __shared__ union {
    typename Sort::TempStorage sort[GROUPS];
    typename Exchange::TempStorage exchange[GROUPS];
  } shared;
  int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  Key *tile = keys + (blockIdx.x * GROUPS + group) * LANES * ITEMS, items[ITEMS];
  for (int i = 0; i < ITEMS; ++i)
    items[i] = tile[i * LANES + lane];
  Exchange(shared.exchange[group]).StripedToBlocked(items, items);
  __syncthreads();
  Sort(shared.sort[group]).Sort(items, Less());
  for (int i = 0; i < ITEMS; ++i)
    tile[lane * ITEMS + i] = items[i];
}

#define WARP(T, OPERATOR, LANES, ITEMS)                                                                                \
  template __global__ void warp_rows<T, OPERATOR, LANES, ITEMS>(const T *, T *, const int *, int);                     \
  KEEP(warp_rows<T, OPERATOR, LANES, ITEMS>)
#define WARP_SORT(KEY, LANES, ITEMS)                                                                                   \
  template __global__ void warp_sort<KEY, LANES, ITEMS>(KEY *);                                                        \
  KEEP(warp_sort<KEY, LANES, ITEMS>)

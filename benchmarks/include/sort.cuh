// Tiles sorted by digits (cub::BlockRadixSort) and by comparison (cub::BlockMergeSort), with values that follow.
#pragma once

#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_store.cuh>

#include "operators.cuh"

template <class Key, class Value, int THREADS, int ITEMS, int BITS>
__global__ void __launch_bounds__(THREADS) radix_sort_tile(Key *keys, Value *values, int first_bit, int last_bit) {
  using Sort = cub::BlockRadixSort<Key, THREADS, ITEMS, Value, BITS>;
  __shared__ typename Sort::TempStorage shared;
  Key tile_keys[ITEMS];
  Value tile_values[ITEMS];
  int first = blockIdx.x * THREADS * ITEMS;
  cub::LoadDirectBlocked(threadIdx.x, keys + first, tile_keys);
  cub::LoadDirectBlocked(threadIdx.x, values + first, tile_values);
  Sort(shared).SortBlockedToStriped(tile_keys, tile_values, first_bit, last_bit);
  cub::StoreDirectStriped<THREADS>(threadIdx.x, keys + first, tile_keys);
  cub::StoreDirectStriped<THREADS>(threadIdx.x, values + first, tile_values);
  if (threadIdx.x == 0)
    count_tile(THREADS * ITEMS);
}

template <class Key, class Value, int THREADS, int ITEMS>
__global__ void __launch_bounds__(THREADS) merge_sort_tile(Key *keys, Value *values, int count) {
  using Sort = cub::BlockMergeSort<Key, THREADS, ITEMS, Value>;
  __shared__ typename Sort::TempStorage shared;
  Key tile_keys[ITEMS];
  Value tile_values[ITEMS];
  int first = blockIdx.x * THREADS * ITEMS;
  cub::LoadDirectBlocked(threadIdx.x, keys + first, tile_keys, count - first, keys[0]);
  cub::LoadDirectBlocked(threadIdx.x, values + first, tile_values, count - first);
  Sort(shared).StableSort(tile_keys, tile_values, Less(), count - first, keys[0]);
  check_tile(!Less()(tile_keys[ITEMS - 1], tile_keys[0]), blockIdx.x);
  cub::StoreDirectBlocked(threadIdx.x, keys + first, tile_keys, count - first);
  cub::StoreDirectBlocked(threadIdx.x, values + first, tile_values, count - first);
}

#define RADIX_SORT(KEY, VALUE, THREADS, ITEMS, BITS)                                                                   \
  template __global__ void radix_sort_tile<KEY, VALUE, THREADS, ITEMS, BITS>(KEY *, VALUE *, int, int);                \
  KEEP(radix_sort_tile<KEY, VALUE, THREADS, ITEMS, BITS>)
#define MERGE_SORT(KEY, VALUE, THREADS, ITEMS)                                                                         \
  template __global__ void merge_sort_tile<KEY, VALUE, THREADS, ITEMS>(KEY *, VALUE *, int);                           \
  KEEP(merge_sort_tile<KEY, VALUE, THREADS, ITEMS>)

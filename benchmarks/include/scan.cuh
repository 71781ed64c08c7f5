// Prefix sums: of a tile by cub::BlockScan, of all tiles in one pass by the agent of cub::DeviceScan.
#pragma once

#include <cub/agent/agent_scan.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

#include "operators.cuh"

template <class T, template <class> class Operator, int THREADS, int ITEMS, cub::BlockScanAlgorithm ALGORITHM>
__global__ void __launch_bounds__(THREADS) scan_tile(const T *in, T *out, T *totals, int count) {
  using Load = cub::BlockLoad<T, THREADS, ITEMS, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
  using Store = cub::BlockStore<T, THREADS, ITEMS, cub::BLOCK_STORE_WARP_TRANSPOSE>;
  using Scan = cub::BlockScan<T, THREADS, ALGORITHM>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Store::TempStorage store;
    typename Scan::TempStorage scan;
  } shared;
  T items[ITEMS], total;
  int first = blockIdx.x * THREADS * ITEMS;
  Load(shared.load).Load(in + first, items, count - first, from_index<T>(0));
  __syncthreads();
  Scan(shared.scan).InclusiveScan(items, items, Operator<T>(), total);
  __syncthreads();
  Store(shared.store).Store(out + first, items, count - first);
  if (threadIdx.x == 0) {
    totals[blockIdx.x] = total;
    count_tile(THREADS * ITEMS);
  }
}

template <class T, template <class> class Operator, int THREADS, int ITEMS>
__global__ void __launch_bounds__(THREADS) scan_range(const T *in, T *out, cub::ScanTileState<T> tiles, int count) {
  using Policy = cub::AgentScanPolicy<THREADS, ITEMS, T, cub::BLOCK_LOAD_WARP_TRANSPOSE, cub::LOAD_DEFAULT,
                                      cub::BLOCK_STORE_WARP_TRANSPOSE, cub::BLOCK_SCAN_WARP_SCANS>;
  using Agent = cub::detail::scan::AgentScan<Policy, const T *, T *, Operator<T>, cub::NullType, int, T>;
  __shared__ typename Agent::TempStorage shared;
  Agent(shared, in, out, Operator<T>(), cub::NullType()).ConsumeRange(count, tiles, 0);
}

#define SCAN(T, OPERATOR, THREADS, ITEMS, ALGORITHM)                                                                   \
  template __global__ void scan_tile<T, OPERATOR, THREADS, ITEMS, cub::BLOCK_SCAN_##ALGORITHM>(const T *, T *, T *,    \
                                                                                               int);                   \
  template __global__ void scan_range<T, OPERATOR, THREADS, ITEMS>(const T *, T *, cub::ScanTileState<T>, int);        \
  KEEP(scan_tile<T, OPERATOR, THREADS, ITEMS, cub::BLOCK_SCAN_##ALGORITHM>)                                            \
  KEEP(scan_range<T, OPERATOR, THREADS, ITEMS>)

// Tiles reduced by cub::BlockReduce, and whole ranges by the agent of cub::DeviceReduce.
#pragma once

#include <cub/agent/agent_reduce.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_reduce.cuh>

#include "operators.cuh"

template <class T, template <class> class Operator, int THREADS, int ITEMS, cub::BlockReduceAlgorithm ALGORITHM>
__global__ void __launch_bounds__(THREADS) reduce_tile(const T *in, T *out, int count) {
  using Load = cub::BlockLoad<T, THREADS, ITEMS, cub::BLOCK_LOAD_TRANSPOSE>;
  using Reduce = cub::BlockReduce<T, THREADS, ALGORITHM>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Reduce::TempStorage reduce;
  } shared;
  T items[ITEMS];
  int first = blockIdx.x * THREADS * ITEMS;
  Load(shared.load).Load(in + first, items, count - first, from_index<T>(0));
  __syncthreads();
  T total = Reduce(shared.reduce).Reduce(items, Operator<T>());
  if (threadIdx.x == 0) {
    out[blockIdx.x] = total;
    count_tile(THREADS * ITEMS);
  }
}

template <class T, template <class> class Operator, int THREADS, int ITEMS>
__global__ void __launch_bounds__(THREADS) reduce_range(const T *in, T *out, int count) {
  using Policy =
      cub::AgentReducePolicy<THREADS, ITEMS, T, 2, cub::BLOCK_REDUCE_WARP_REDUCTIONS, cub::LOAD_LDG>;
  using Agent = cub::detail::reduce::AgentReduce<Policy, const T *, T *, int, Operator<T>, T>;
  __shared__ typename Agent::TempStorage shared;
  int share = (count + gridDim.x - 1) / gridDim.x, first = blockIdx.x * share;
  int last = first + share < count ? first + share : count;
  if (first >= last)
    return;
  T total = Agent(shared, in, Operator<T>()).ConsumeRange(first, last);
  if (threadIdx.x == 0)
    out[blockIdx.x] = total;
}

#define REDUCE(T, OPERATOR, THREADS, ITEMS, ALGORITHM)                                                                 \
  template __global__ void reduce_tile<T, OPERATOR, THREADS, ITEMS, cub::BLOCK_REDUCE_##ALGORITHM>(const T *, T *,     \
                                                                                                   int);               \
  template __global__ void reduce_range<T, OPERATOR, THREADS, ITEMS>(const T *, T *, int);                             \
  KEEP(reduce_tile<T, OPERATOR, THREADS, ITEMS, cub::BLOCK_REDUCE_##ALGORITHM>)                                        \
  KEEP(reduce_range<T, OPERATOR, THREADS, ITEMS>)

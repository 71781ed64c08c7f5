// Counting, compacting and run lengths: the primitives between a scan and a sort.
#pragma once

#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_run_length_decode.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

#include "operators.cuh"

template <class T> struct Step {
  __device__ T operator()(const T &a, const T &b) const { return T(a - b); }
};

template <class T, int THREADS, int ITEMS, int BINS, cub::BlockHistogramAlgorithm ALGORITHM>
__global__ void __launch_bounds__(THREADS) histogram_tile(const T *in, unsigned *bins) {
  using Load = cub::BlockLoad<T, THREADS, ITEMS, cub::BLOCK_LOAD_STRIPED>;
  using Histogram = cub::BlockHistogram<unsigned char, THREADS, ITEMS, BINS, ALGORITHM>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Histogram::TempStorage histogram;
  } shared;
  __shared__ unsigned counts[BINS];
  T items[ITEMS];
  unsigned char samples[ITEMS];
  Load(shared.load).Load(in + blockIdx.x * THREADS * ITEMS, items);
  for (int i = 0; i < ITEMS; ++i)
    samples[i] = (unsigned char)(unsigned(relaxation(float(items[i])) * BINS) % BINS);
  __syncthreads();
  Histogram(shared.histogram).Histogram(samples, counts);
  __syncthreads();
  for (int bin = threadIdx.x; bin < BINS; bin += THREADS)
    atomicAdd(&bins[bin], counts[bin]);
}

template <class T, int THREADS, int ITEMS>
__global__ void __launch_bounds__(THREADS) compact_tile(const T *in, T *out, int *kept, T threshold) {
  using Scan = cub::BlockScan<int, THREADS>;
  using Heads = cub::BlockDiscontinuity<T, THREADS>;
  using Difference = cub::BlockAdjacentDifference<T, THREADS>;
  using Exchange = cub::BlockExchange<T, THREADS, ITEMS>;
  __shared__ union {
    typename Scan::TempStorage scan;
    typename Heads::TempStorage heads;
    typename Difference::TempStorage difference;
    typename Exchange::TempStorage exchange;
  } shared;
  T items[ITEMS], steps[ITEMS];
  int flags[ITEMS], ranks[ITEMS], total;
  cub::LoadDirectStriped<THREADS>(threadIdx.x, in + blockIdx.x * THREADS * ITEMS, items);
  Exchange(shared.exchange).StripedToBlocked(items, items);
  __syncthreads();
  Heads(shared.heads).FlagHeads(flags, items, cuda::std::not_equal_to<>());
  __syncthreads();
  Difference(shared.difference).SubtractLeft(items, steps, Step<T>());
  __syncthreads();
  for (int i = 0; i < ITEMS; ++i)
    flags[i] = flags[i] && threshold < steps[i];
  Scan(shared.scan).ExclusiveSum(flags, ranks, total);
  __syncthreads();
  for (int i = 0; i < ITEMS; ++i)
    ranks[i] = flags[i] ? ranks[i] : -1;
  Exchange(shared.exchange).ScatterToStripedGuarded(items, ranks);
  for (int i = 0; i < ITEMS; ++i)
    if (int(threadIdx.x) + i * THREADS < total)
      out[blockIdx.x * THREADS * ITEMS + threadIdx.x + i * THREADS] = items[i];
  if (threadIdx.x == 0) {
    kept[blockIdx.x] = total;
    count_tile(total);
  }
}

template <class T, int THREADS, int RUNS, int ITEMS>
__global__ void __launch_bounds__(THREADS) decode_runs(const T *values, const unsigned *lengths, T *out) {
  using Decode = cub::BlockRunLengthDecode<T, THREADS, RUNS, ITEMS>;
  __shared__ typename Decode::TempStorage shared;
  T runs[RUNS];
  unsigned run_lengths[RUNS], decoded_size = 0;
  cub::LoadDirectBlocked(threadIdx.x, values + blockIdx.x * THREADS * RUNS, runs);
  cub::LoadDirectBlocked(threadIdx.x, lengths + blockIdx.x * THREADS * RUNS, run_lengths);
  Decode decode(shared, runs, run_lengths, decoded_size);
  for (unsigned offset = 0; offset < decoded_size; offset += THREADS * ITEMS) {
    T decoded[ITEMS];
    decode.RunLengthDecode(decoded, offset);
    cub::StoreDirectBlocked(threadIdx.x, out + offset, decoded, int(decoded_size - offset));
  }
}

#define HISTOGRAM(T, THREADS, ITEMS, BINS, ALGORITHM)                                                                  \
  template __global__ void histogram_tile<T, THREADS, ITEMS, BINS, cub::BLOCK_HISTO_##ALGORITHM>(const T *,            \
                                                                                                 unsigned *);          \
  KEEP(histogram_tile<T, THREADS, ITEMS, BINS, cub::BLOCK_HISTO_##ALGORITHM>)
#define COMPACT(T, THREADS, ITEMS)                                                                                     \
  template __global__ void compact_tile<T, THREADS, ITEMS>(const T *, T *, int *, T);                                  \
  KEEP(compact_tile<T, THREADS, ITEMS>)
#define DECODE(T, THREADS, RUNS, ITEMS)                                                                                \
  template __global__ void decode_runs<T, THREADS, RUNS, ITEMS>(const T *, const unsigned *, T *);                     \
  KEEP(decode_runs<T, THREADS, RUNS, ITEMS>)

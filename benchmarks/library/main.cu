// The program of the corpora: times kernels on the GPU and checks what they compute. Prints one line for each, then
// PASS or FAIL; ends with 77 where there is no GPU.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "chemistry.cuh"
#include "device.cuh"
#include "flow.cuh"
#include "reduce.cuh"
#include "sort.cuh"

// Kernels that other translation units define.
__global__ void reset_counters();
__global__ void fill_noise(float *out, int count, unsigned stream);
__global__ void tabulate_closures(double *out, int count);

static bool all_right = true;

static void require(cudaError_t status, const char *what) {
  if (status == cudaSuccess)
    return;
  printf("%s: %s\nFAIL\n", what, cudaGetErrorString(status));
  exit(1);
}

/// An array on the device.
template <class T> struct Array {
  T *data = nullptr;
  size_t count;
  explicit Array(size_t count) : count(count) { require(cudaMalloc(&data, count * sizeof(T)), "cudaMalloc"); }
  explicit Array(const std::vector<T> &host) : Array(host.size()) { set(host); }
  Array(const Array &) = delete;
  ~Array() { cudaFree(data); }
  void set(const std::vector<T> &host) {
    require(cudaMemcpy(data, host.data(), count * sizeof(T), cudaMemcpyHostToDevice), "copy to the device");
  }
  std::vector<T> get() const {
    std::vector<T> host(count);
    require(cudaMemcpy(host.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost), "copy from the device");
    return host;
  }
};

/// Times `launch` and prints its line; `bytes` is what it reads and writes at least.
static void measure(const char *name, double bytes, const std::function<void()> &launch,
                    const std::function<bool()> &check, const std::function<void()> &prepare = [] {}) {
  constexpr int WARM_UP = 3, RUNS = 21;
  cudaEvent_t start, stop;
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  std::vector<float> times;
  for (int run = 0; run < WARM_UP + RUNS; ++run) {
    prepare();
    cudaEventRecord(start);
    launch();
    cudaEventRecord(stop);
    require(cudaEventSynchronize(stop), name);
    require(cudaGetLastError(), name);
    float milliseconds;
    cudaEventElapsedTime(&milliseconds, start, stop);
    if (run >= WARM_UP)
      times.push_back(milliseconds);
  }
  std::sort(times.begin(), times.end());
  bool right = check();
  all_right &= right;
  float median = times[RUNS / 2];
  printf("%-28s median %9.4f ms  least %9.4f ms  %7.0f GB/s  %s\n", name, median, times[0], bytes / median * 1e-6,
         right ? "ok" : "WRONG");
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
}

/// Scratch memory that an algorithm of CUB asks for when it is first called without.
struct Scratch {
  Temporary temporary = {nullptr, 0};
  explicit Scratch(const std::function<void(Temporary &)> &call) {
    call(temporary);
    require(cudaMalloc(&temporary.memory, temporary.bytes), "cudaMalloc");
  }
  ~Scratch() { cudaFree(temporary.memory); }
};

static void measure_device(const char *name, double bytes, const std::function<void(Temporary &)> &call,
                           const std::function<bool()> &check, const std::function<void()> &prepare = [] {}) {
  Scratch scratch(call);
  measure(name, bytes, [&] { call(scratch.temporary); }, check, prepare);
}

template <class T> static std::vector<T> scrambled(size_t count, unsigned range) {
  std::vector<T> values(count);
  unsigned long long state = 88172645463325252ull;
  for (T &value : values) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    value = T(unsigned(state >> 20) % range);
  }
  return values;
}

static void device_reduce_and_scan() {
  const int n = 1 << 26;
  std::vector<unsigned> host = scrambled<unsigned>(n, 1000);
  Array<unsigned> in(host), out(n), total(1);
  unsigned expected = std::accumulate(host.begin(), host.end(), 0u);
  measure_device(
      "cub::DeviceReduce::Sum", 4.0 * n,
      [&](Temporary &t) { cub::DeviceReduce::Sum(t.memory, t.bytes, in.data, total.data, n); },
      [&] { return total.get()[0] == expected; });
  measure_device(
      "cub::DeviceScan::InclusiveSum", 8.0 * n,
      [&](Temporary &t) { cub::DeviceScan::InclusiveSum(t.memory, t.bytes, in.data, out.data, n); },
      [&] {
        std::partial_sum(host.begin(), host.end(), host.begin());
        return out.get() == host;
      });
}

static void device_sorts() {
  const int n = 1 << 24;
  std::vector<unsigned> host = scrambled<unsigned>(n, 0xffffffffu), sorted = host;
  std::sort(sorted.begin(), sorted.end());
  Array<unsigned> in(host), out(n);
  measure_device(
      "cub::DeviceRadixSort 32", 8.0 * n,
      [&](Temporary &t) { cub::DeviceRadixSort::SortKeys(t.memory, t.bytes, in.data, out.data, n); },
      [&] { return out.get() == sorted; });
  std::vector<unsigned long long> wide = scrambled<unsigned long long>(n, 0xffffffffu), wide_sorted = wide;
  std::sort(wide_sorted.begin(), wide_sorted.end());
  Array<unsigned long long> wide_in(wide), wide_out(n);
  Array<int> places(n), moved(n);
  measure_device(
      "cub::DeviceRadixSort 64 pairs", 24.0 * n,
      [&](Temporary &t) {
        cub::DeviceRadixSort::SortPairs(t.memory, t.bytes, wide_in.data, wide_out.data, places.data, moved.data, n);
      },
      [&] { return wide_out.get() == wide_sorted; });
  measure_device(
      "cub::DeviceMergeSort", 8.0 * n,
      [&](Temporary &t) { cub::DeviceMergeSort::SortKeys(t.memory, t.bytes, out.data, n, Less()); },
      [&] { return out.get() == sorted; }, [&] { out.set(host); });
}

static void device_selections() {
  const int n = 1 << 25, bins = 256;
  std::vector<int> host = scrambled<int>(n, bins);
  Array<int> in(host), out(n), kept(1), counts(bins), lengths(n);
  std::vector<int> expected_counts(bins), unique = host;
  for (int value : host)
    ++expected_counts[value];
  unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
  auto starts_with_unique = [&] {
    std::vector<int> found = out.get();
    return kept.get()[0] == int(unique.size()) && std::equal(unique.begin(), unique.end(), found.begin());
  };
  measure_device(
      "cub::DeviceHistogram", 4.0 * n,
      [&](Temporary &t) {
        cub::DeviceHistogram::HistogramEven(t.memory, t.bytes, in.data, counts.data, bins + 1, 0, bins, n);
      },
      [&] { return counts.get() == expected_counts; });
  measure_device(
      "cub::DeviceSelect::Unique", 8.0 * n,
      [&](Temporary &t) { cub::DeviceSelect::Unique(t.memory, t.bytes, in.data, out.data, kept.data, n); },
      starts_with_unique);
  measure_device(
      "cub::DeviceRunLengthEncode", 12.0 * n,
      [&](Temporary &t) {
        cub::DeviceRunLengthEncode::Encode(t.memory, t.bytes, in.data, out.data, lengths.data, kept.data, n);
      },
      starts_with_unique);
}

static void tiles() {
  const int threads = 256, items = 8, blocks = 1 << 13, n = threads * items * blocks;
  std::vector<float> host = scrambled<float>(n, 64);
  Array<float> in(host), totals(blocks);
  require(cudaMemcpyToSymbol(work_scale, std::vector<float>{1.0f}.data(), sizeof(float)), "set work_scale");
  measure(
      "tiles by BlockReduce", 4.0 * n,
      [&] {
        reduce_tile<float, Sum, threads, items, cub::BLOCK_REDUCE_RAKING><<<blocks, threads>>>(in.data, totals.data, n);
      },
      [&] {
        std::vector<float> found = totals.get();
        for (int block = 0; block < blocks; ++block)
          if (found[block] != std::accumulate(&host[size_t(block) * threads * items],
                                              &host[size_t(block) * threads * items] + threads * items, 0.0f))
            return false;
        return true;
      });
  std::vector<unsigned> keys = scrambled<unsigned>(n, 0xffffffffu);
  std::vector<float> values(keys.begin(), keys.end());
  Array<unsigned> sorted(n);
  Array<float> moved(n);
  measure(
      "tiles by BlockRadixSort", 16.0 * n,
      [&] {
        radix_sort_tile<unsigned, float, threads, items, 6><<<blocks, threads>>>(sorted.data, moved.data, 0, 32);
      },
      [&] {
        std::vector<unsigned> found = sorted.get();
        std::vector<float> found_values = moved.get();
        for (size_t first = 0; first < keys.size(); first += threads * items)
          std::sort(&keys[first], &keys[first] + threads * items);
        return found == keys && std::equal(keys.begin(), keys.end(), found_values.begin(),
                                           [](unsigned key, float value) { return float(key) == value; });
      },
      [&] { sorted.set(keys), moved.set(values); });
}

/// A uniform state must stay as it is, and the sum over a disturbed one is printed, to compare builds by.
static void flow_steps() {
  constexpr int FIELDS = 6;
  const int cells = 2048;
  const size_t size = size_t(cells) * cells;
  flow::Grid grid = {cells, cells, 1.0, 0.0};
  std::vector<double> host(size * FIELDS);
  const double uniform[FIELDS] = {1.2, 0.3, 0.1, 2.5, 0.0, 0.0};
  for (size_t i = 0; i < host.size(); ++i)
    host[i] = uniform[i / size];
  Array<double> in(host), out(host);
  auto launch = [&] {
    dim3 block(32, 8), blocks(cells / 32, cells / 8);
    flow::advance<double, 5, FIELDS, 2><<<blocks, block>>>(grid, in.data, out.data, 1);
  };
  grid.time_step = 0.01;
  measure("flow, fifth order", 16.0 * size * FIELDS, launch, [&] {
    std::vector<double> found = out.get();
    for (size_t i = 0; i < 4 * size; ++i)
      if (std::fabs(found[i] - host[i]) > 1e-9)
        return false;
    return true;
  });
  for (size_t i = 0; i < 4 * size; ++i)
    host[i] *= 1.0 + 0.01 * std::sin(double(i % cells) * 0.1);
  in.set(host);
  launch();
  std::vector<double> found = out.get();
  printf("%-28s %.10g\n", "flow, sum of all fields", std::accumulate(found.begin(), found.end(), 0.0));
}

/// Reactions change the species and keep the total mass.
static void reactions() {
  constexpr int SPECIES = 14;
  const int cells = 1 << 18;
  std::vector<double> mass(size_t(cells) * SPECIES), temperatures(cells, 600.0);
  for (size_t i = 0; i < mass.size(); ++i)
    mass[i] = 1.0 / SPECIES * (1.0 + 0.1 * std::sin(double(i)));
  Array<double> in(mass), temperature(temperatures);
  measure(
      "reactions, 14 species", 16.0 * mass.size(),
      [&] { react<SPECIES, 28><<<cells / 128, 128>>>(in.data, temperature.data, 1e-2, cells); },
      [&] {
        std::vector<double> found = in.get();
        for (int cell = 0; cell < cells; ++cell) {
          double before = 0, after = 0;
          for (int s = 0; s < SPECIES; ++s)
            before += mass[size_t(s) * cells + cell], after += found[size_t(s) * cells + cell];
          if (!(std::fabs(after - before) < 1e-9))
            return false;
        }
        return found != mass;
      },
      [&] { in.set(mass); });
}

static unsigned host_noise(unsigned left, unsigned right) {
  const unsigned keys[4] = {0x9e3779b9u, 0x85ebca6bu, 0xc2b2ae35u, 0x27d4eb2fu};
  for (unsigned key : keys) {
    unsigned product = unsigned((unsigned long long)(right ^ key) * 0xd2511f53u >> 32);
    unsigned next = left ^ (product + right * 0xcd9e8d57u);
    left = right;
    right = next;
  }
  return left ^ right;
}

static double host_closed(int model, double a, double b) {
  return model % 3 == 0 ? a * 0.5 + b : model % 3 == 1 ? a * std::exp(-b * 1.2e3) : a / (1.0 + std::fabs(b) * a);
}

static double host_limited(int limiter, double a, double b) {
  auto minmod = [](double a, double b) { return a * b <= 0 ? 0 : std::fabs(a) < std::fabs(b) ? a : b; };
  if (limiter % 3 == 1)
    return a * b <= 0 ? 0 : 2 * a * b / (a + b);
  double first = minmod(2 * a, b), second = minmod(a, 2 * b);
  return limiter % 3 == 0 ? minmod(a, b) : std::fabs(first) < std::fabs(second) ? second : first;
}

static void other_files() {
  const int n = 1 << 24;
  Array<float> noise_values(n);
  measure(
      "noise", 4.0 * n, [&] { fill_noise<<<n / 256, 256>>>(noise_values.data, n, 7); },
      [&] {
        std::vector<float> found = noise_values.get();
        for (int i = 0; i < n; ++i)
          if (found[i] != host_noise(unsigned(i), 7) * 2.3283064e-10f)
            return false;
        return true;
      });
  Array<double> closures(n);
  measure(
      "virtual functions, pointers", 8.0 * n, [&] { tabulate_closures<<<n / 256, 256>>>(closures.data, n); },
      [&] {
        std::vector<double> found = closures.get();
        for (int i = 0; i < n; ++i) {
          double expected = host_closed(i, i, 0.25) + host_limited(i, i, 1.5);
          if (std::fabs(found[i] - expected) > 1e-9 * (1 + std::fabs(expected)))
            return false;
        }
        return true;
      });
}

/// A variable of another file, written by kernels of several.
static void counters() {
  unsigned long long done = 0;
  require(cudaMemcpyFromSymbol(&done, tiles_done, sizeof done), "read tiles_done");
  bool right = done > 0;
  reset_counters<<<1, 1>>>();
  unsigned long long after = 1;
  require(cudaMemcpyFromSymbol(&after, tiles_done, sizeof after), "read tiles_done");
  right &= after == 0;
  all_right &= right;
  printf("%-28s %llu tiles  %s\n", "variable of another file", done, right ? "ok" : "WRONG");
}

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    puts("no GPU");
    return 77;
  }
  device_reduce_and_scan();
  device_sorts();
  device_selections();
  tiles();
  flow_steps();
  reactions();
  other_files();
  counters();
  puts(all_right ? "PASS" : "FAIL");
  return all_right ? 0 : 1;
}

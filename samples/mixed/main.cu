// clang: runs the pendulums on the GPU and on the host, and compares.
//
// Exit status: 0 and a last line PASS, 1 and a last line FAIL, or 77 where there is no GPU.
#include "sum.cuh"
#include "view.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int exit_no_gpu = 77;
constexpr int steps = 200;
constexpr int pendulum_count = 5000;
constexpr Air settings = {/*density=*/0.3, /*wind=*/0.25, /*time_step=*/0.01};

struct DeviceRun {
  State state;
  double energy_by_nvcc = 0;
};

DeviceRun device_run(const std::vector<Pendulum> &start) {
  check_cuda(cudaMemcpyToSymbol(air, &settings, sizeof settings), "set the constants");
  DeviceRun run;
  run.state.pendulums = start;
  size_t size = start.size() * sizeof(Pendulum);
  Pendulum *pendulums = nullptr;
  double *single = nullptr;
  check_cuda(cudaMalloc(&pendulums, size), "allocate the pendulums");
  check_cuda(cudaMalloc(&single, start.size() * sizeof(double)), "allocate the energies");
  check_cuda(cudaMemcpy(pendulums, start.data(), size, cudaMemcpyHostToDevice), "upload");

  run_steps(pendulums, pendulum_count, steps);
  slow_down<<<blocks(pendulum_count), block>>>(pendulums, pendulum_count, 0.5);
  check_cuda(cudaGetLastError(), "launch slow_down");
  energies<<<blocks(pendulum_count), block>>>(pendulums, pendulum_count, single);
  check_cuda(cudaGetLastError(), "launch energies");
  check_cuda(cudaDeviceSynchronize(), "run the kernels");
  run.state.energy = sum_by_clang(single, pendulum_count);
  run.energy_by_nvcc = sum_by_nvcc(single, pendulum_count);
  run.state.fastest = find_fastest(pendulums, pendulum_count);
  check_cuda(cudaMemcpy(run.state.pendulums.data(), pendulums, size, cudaMemcpyDeviceToHost), "download");
  check_cuda(cudaFree(single), "free the energies");
  check_cuda(cudaFree(pendulums), "free the pendulums");
  return run;
}

double worst(const std::vector<Pendulum> &device, const std::vector<Pendulum> &host) {
  double worst = 0;
  for (size_t i = 0; i < host.size(); ++i)
    worst = std::max({worst, std::fabs(device[i].angle - host[i].angle), std::fabs(device[i].speed - host[i].speed)});
  return worst;
}

// One line for each check; counts what went wrong.
class Checks {
public:
  void near(const char *what, double device, double host) {
    bool good = std::fabs(device - host) <= 1e-9 * std::max(1.0, std::fabs(host));
    std::printf("%-4s %-26s device %.10g, host %.10g\n", good ? "ok" : "BAD", what, device, host);
    ++total_;
    failed_ += !good;
  }
  int failed() const { return failed_; }
  int total() const { return total_; }

private:
  int failed_ = 0;
  int total_ = 0;
};

void check_view(Checks &checks, const char *whose, const View &view, const State &host) {
  std::printf("%s sees kernels of %d, %d, %d and %d registers\n", whose, view.registers[0], view.registers[1],
              view.registers[2], view.registers[3]);
  checks.near("kernels without registers", std::count(view.registers, view.registers + 4, 0), 0);
  checks.near("swings", view.swings, host.swings);
  checks.near("evaluations", view.evaluations, 1.0 * steps * pendulum_count);
  checks.near("density", view.density, settings.density);
}

} // namespace

double sum_by_clang(const double *values, int count) { return sum_by_cub(values, count); }

View view_of_clang() { return view_of_this_compiler(); }

void check_cuda(cudaError_t status, const char *what) {
  if (status == cudaSuccess)
    return;
  std::printf("FAIL: cannot %s: %s\n", what, cudaGetErrorName(status));
  std::exit(EXIT_FAILURE);
}

int main() {
  int devices = 0;
  if (cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess) {
    std::printf("no GPU: %s\n", cudaGetErrorString(status));
    return exit_no_gpu;
  }

  std::vector<Pendulum> start = initial_pendulums(pendulum_count);
  DeviceRun device = device_run(start);
  State host = reference_run(settings, start, steps);
  View clang = view_of_clang(), nvcc = view_of_nvcc();

  Checks checks;
  checks.near("worst pendulum", worst(device.state.pendulums, host.pendulums), 0);
  checks.near("energy, summed by clang", device.state.energy, host.energy);
  checks.near("energy, summed by nvcc", device.energy_by_nvcc, host.energy);
  checks.near("fastest", device.state.fastest, host.fastest);
  check_view(checks, "clang", clang, host);
  check_view(checks, "nvcc", nvcc, host);
  for (int i = 0; i < 4; ++i)
    checks.near("registers, by both", clang.registers[i], nvcc.registers[i]);
  if (checks.failed() > 0) {
    std::printf("FAIL: %d of %d checks\n", checks.failed(), checks.total());
    return EXIT_FAILURE;
  }
  std::printf("PASS\n");
  return EXIT_SUCCESS;
}

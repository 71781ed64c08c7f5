// Runs the plate on the GPU and on the host, and compares.
//
// Exit status: 0 and a last line PASS, 1 and a last line FAIL, or 77 where there is no GPU.
#include "device.cuh"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

__constant__ Plate plate;

namespace {

constexpr int exit_no_gpu = 77;
constexpr int steps = 100;
constexpr int particle_count = 3000;
constexpr Plate settings = {/*width=*/100,    /*conductivity=*/0.2, /*time_step=*/0.01, /*stiffness=*/4.0,
                            /*charge=*/0.5, /*screening=*/0.3,    /*drag=*/0.02};

template <typename T> T *upload(const std::vector<T> &values) {
  T *device = nullptr;
  check_cuda(cudaMalloc(&device, values.size() * sizeof(T)), "allocate device memory");
  check_cuda(cudaMemcpy(device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "upload");
  return device;
}

template <typename T> void download(std::vector<T> &values, const T *device) {
  check_cuda(cudaMemcpy(values.data(), device, values.size() * sizeof(T), cudaMemcpyDeviceToHost), "download");
}

State device_run(State state) {
  check_cuda(cudaMemcpyToSymbol(plate, &settings, sizeof settings), "set the constants");
  int cells = static_cast<int>(state.heat.size());
  double *heat = upload(state.heat), *next = upload(state.heat);
  Particle *particles = upload(state.particles);
  for (int step = 0; step < steps; ++step) {
    move_particles(particles, particle_count, heat, step);
    diffuse(heat, next, settings.width);
    std::swap(heat, next);
  }
  check_cuda(cudaDeviceSynchronize(), "run the kernels");
  download(state.heat, heat);
  download(state.particles, particles);
  state.total_heat = total_heat(heat, cells);
  state.peak_heat = peak_heat(heat, cells);
  state.kinetic_energy = kinetic_energy(particles, next, particle_count);
  check_cuda(cudaMemcpyFromSymbol(&state.bounces, bounces, sizeof state.bounces), "read bounces");
  for (void *memory : {static_cast<void *>(heat), static_cast<void *>(next), static_cast<void *>(particles)})
    check_cuda(cudaFree(memory), "free device memory");
  return state;
}

double worst_heat(const State &device, const State &host) {
  double worst = 0;
  for (size_t i = 0; i < host.heat.size(); ++i)
    worst = std::max(worst, std::fabs(device.heat[i] - host.heat[i]));
  return worst;
}

double worst_position(const State &device, const State &host) {
  double worst = 0;
  for (size_t i = 0; i < host.particles.size(); ++i)
    worst = std::max(worst, std::hypot(device.particles[i].x - host.particles[i].x,
                                       device.particles[i].y - host.particles[i].y));
  return worst;
}

// One line for each check; counts what went wrong.
class Checks {
public:
  void near(const char *what, double device, double host) {
    report(std::fabs(device - host) <= 1e-9 * std::max(1.0, std::fabs(host)), what, device, host);
  }
  void equal(const char *what, unsigned long long device, unsigned long long host) {
    report(device == host, what, static_cast<double>(device), static_cast<double>(host));
  }
  int failed() const { return failed_; }
  int total() const { return total_; }

private:
  void report(bool good, const char *what, double device, double host) {
    std::printf("%-4s %-24s device %.10g, host %.10g\n", good ? "ok" : "BAD", what, device, host);
    ++total_;
    failed_ += !good;
  }
  int failed_ = 0;
  int total_ = 0;
};

} // namespace

void check_cuda(cudaError_t status, const char *what) {
  if (status == cudaSuccess)
    return;
  std::printf("FAIL: cannot %s: %s\n", what, cudaGetErrorString(status));
  std::exit(EXIT_FAILURE);
}

int main() {
  int devices = 0;
  if (cudaError_t status = cudaGetDeviceCount(&devices); status != cudaSuccess) {
    std::printf("no GPU: %s\n", cudaGetErrorString(status));
    return exit_no_gpu;
  }

  State start = initial_state(settings, particle_count);
  State device = device_run(start);
  State host = reference_run(settings, start, steps);

  Checks checks;
  checks.near("worst cell", worst_heat(device, host), 0);
  checks.near("worst particle", worst_position(device, host), 0);
  checks.near("total heat", device.total_heat, host.total_heat);
  checks.near("peak heat", device.peak_heat, host.peak_heat);
  checks.near("kinetic energy", device.kinetic_energy, host.kinetic_energy);
  checks.equal("bounces at the rim", device.bounces, host.bounces);
  checks.equal("cells updated", cells_updated(), 1ull * steps * settings.width * settings.width);
  checks.equal("particles moved", particles_moved(), 1ull * steps * particle_count);
  if (checks.failed() > 0) {
    std::printf("FAIL: %d of %d checks\n", checks.failed(), checks.total());
    return EXIT_FAILURE;
  }
  std::printf("PASS\n");
  return EXIT_SUCCESS;
}

// Swings the chain on an OpenMP device and on the host, and compares.
//
// Exit status: 0 and a last line PASS, or 1 and a last line FAIL.
#include "device.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <omp.h>

Settings settings = {/*time_step=*/0.05, /*stiffness=*/4, /*wind=*/0, /*floor=*/-0.45, /*band=*/0.01};

namespace {

constexpr int count = 2000;
constexpr double gust = -0.1;

bool ran_on_device() {
  int on_host = 1;
#pragma omp target map(from : on_host)
  on_host = omp_is_initial_device();
  return on_host == 0;
}

State device_run(State state) {
  double *height = state.height.data(), *speed = state.speed.data();
#pragma omp target data map(tofrom : height[0 : count], speed[0 : count])
  {
    for (int step = 0; step < steps; ++step) {
      if (step == calm_steps) {
        settings.wind = gust;
#pragma omp target update to(settings)
      }
      accelerate(height, speed, count);
      move(height, speed, count);
    }
    state.energy = energy(height, speed, count);
    state.peak = peak(height, count);
#pragma omp target update from(bounces)
    state.bounces = bounces;
  }
  return state;
}

double worst(const std::vector<double> &device, const std::vector<double> &host) {
  double worst = 0;
  for (size_t i = 0; i < host.size(); ++i)
    worst = std::max(worst, std::fabs(device[i] - host[i]));
  return worst;
}

bool check(const char *what, bool good, double value) {
  std::printf("%-6s %-42s %g\n", good ? "ok" : "WRONG", what, value);
  return good;
}

} // namespace

int main() {
  Settings calm = settings;
  State start = initial_state(count);
  State device = device_run(start), host = host_run(start, calm, gust);
  double heights = worst(device.height, host.height), speeds = worst(device.speed, host.speed);
  double energies = std::fabs(device.energy - host.energy), peaks = std::fabs(device.peak - host.peak);
  bool good = check("target regions ran on a device, of", ran_on_device(), omp_get_num_devices());
  good &= check("heights of 2000 beads, worst difference", heights < 1e-9, heights);
  good &= check("speeds, worst difference", speeds < 1e-9, speeds);
  good &= check("energy, difference of the sums", energies < 1e-9 * host.energy, energies);
  good &= check("peak, difference of the maxima", peaks < 1e-9, peaks);
  bool bounced = host.bounces > 0 && device.bounces == host.bounces;
  good &= check("bounces off the floor, counted there", bounced, device.bounces);
  std::puts(good ? "PASS" : "FAIL");
  return good ? 0 : 1;
}

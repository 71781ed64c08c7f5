// The run on the host: no OpenMP, and no code shared with the device.
#include "chain.h"

#include <algorithm>
#include <cmath>

State initial_state(int count) {
  State state;
  for (int i = 0; i < count; ++i) {
    double along = static_cast<double>(i) / (count - 1);
    state.height.push_back(std::sin(3 * M_PI * along) * (1 - along) * along * 4);
    state.speed.push_back(0);
  }
  return state;
}

static double acceleration(const State &state, const Settings &settings, size_t i) {
  const std::vector<double> &height = state.height;
  double pull = settings.stiffness * (height[i - 1] - 2 * height[i] + height[i + 1]);
  double band = std::min(std::floor(std::fabs(state.speed[i]) / settings.band), double(last_band));
  return pull - (0.02 + 0.03 * band * band) * state.speed[i] + settings.wind;
}

State host_run(State state, Settings settings, double gust) {
  size_t last = state.height.size() - 1;
  for (int step = 0; step < steps; ++step) {
    if (step == calm_steps)
      settings.wind = gust;
    for (size_t i = 1; i < last; ++i)
      state.speed[i] += settings.time_step * acceleration(state, settings, i);
    for (size_t i = 1; i < last; ++i) {
      state.height[i] += settings.time_step * state.speed[i];
      if (state.height[i] < settings.floor) {
        state.height[i] = 2 * settings.floor - state.height[i];
        state.speed[i] = -state.speed[i];
        ++state.bounces;
      }
    }
  }
  for (size_t i = 1; i <= last; ++i) {
    double stretch = state.height[i] - state.height[i - 1];
    state.energy += (std::pow(state.speed[i], 2) + settings.stiffness * std::pow(stretch, 2)) / 2;
  }
  state.peak = *std::max_element(state.height.begin(), state.height.end());
  return state;
}

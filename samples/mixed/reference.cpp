// The run on the host, straight from the formulas: nothing here is shared with the device code.
#include "pendulum.h"

#include <algorithm>
#include <cmath>

std::vector<Pendulum> initial_pendulums(int count) {
  std::vector<Pendulum> pendulums;
  for (int i = 0; i < count; ++i)
    pendulums.push_back({1.2 * std::sin(0.37 * i), 0.8 * std::cos(0.11 * i)});
  return pendulums;
}

static bool hangs(int i) { return i % FORCE_COUNT == FORCE_WEIGHT; }

State reference_run(const Air &air, std::vector<Pendulum> pendulums, int steps) {
  State state;
  for (int i = 0; i < static_cast<int>(pendulums.size()); ++i) {
    Pendulum &p = pendulums[i];
    for (int step = 0; step < steps; ++step) {
      double before = p.angle, relative = p.speed - air.wind;
      double force = hangs(i) ? -9.81 * std::sin(p.angle) : -4 * p.angle;
      p.speed += air.time_step * (force - air.density * relative * std::fabs(relative) / 2);
      p.angle += air.time_step * p.speed;
      state.swings += (before < 0) != (p.angle < 0);
    }
    p.speed *= 0.5;
    state.energy += p.speed * p.speed / 2 + (hangs(i) ? 9.81 * (1 - std::cos(p.angle)) : 2 * p.angle * p.angle);
    state.fastest = std::max(state.fastest, std::fabs(p.speed));
  }
  state.pendulums = pendulums;
  return state;
}

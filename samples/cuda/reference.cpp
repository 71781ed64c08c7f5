// The run on the host, straight from the formulas: nothing here is shared with the device code.
#include "plate.h"

#include <algorithm>
#include <cmath>

State initial_state(const Plate &plate, int particle_count) {
  State state;
  for (int y = 0; y < plate.width; ++y)
    for (int x = 0; x < plate.width; ++x)
      state.heat.push_back(1 + std::cos(0.11 * x) * std::sin(0.07 * y));
  for (int i = 0; i < particle_count; ++i) {
    double turn = 2.399963 * i, radius = 0.48 * std::sqrt((i + 0.5) / particle_count);
    state.particles.push_back({0.5 + radius * std::cos(turn), 0.5 + radius * std::sin(turn),
                               1.5 * std::cos(3 * turn), 1.5 * std::sin(3 * turn)});
  }
  return state;
}

static double heat_at(const Plate &plate, const std::vector<double> &heat, int x, int y) {
  int last = plate.width - 1;
  return heat[std::clamp(y, 0, last) * plate.width + std::clamp(x, 0, last)];
}

static std::vector<double> diffused(const Plate &plate, const std::vector<double> &heat) {
  std::vector<double> result(heat.size());
  for (int y = 0; y < plate.width; ++y)
    for (int x = 0; x < plate.width; ++x) {
      double here = heat_at(plate, heat, x, y);
      double neighbours = heat_at(plate, heat, x - 1, y) + heat_at(plate, heat, x + 1, y) +
                          heat_at(plate, heat, x, y - 1) + heat_at(plate, heat, x, y + 1);
      result[y * plate.width + x] = here + plate.conductivity * (neighbours - 4 * here);
    }
  return result;
}

static void reflect(double &position, double &velocity, unsigned long long &bounces) {
  if (position >= 0 && position <= 1)
    return;
  position = position < 0 ? -position : 2 - position;
  velocity = -velocity;
  ++bounces;
}

// Acceleration towards the middle (positive: away from it), as a factor of the offset.
static double pull(const Plate &plate, Force force, double distance) {
  if (force == FORCE_SPRING)
    return -plate.stiffness;
  distance += 1e-3;
  return plate.charge * std::erf(distance / plate.screening) * std::exp(-distance / plate.screening) / distance;
}

static void move(const Plate &plate, State &state, int i, int step) {
  Particle &p = state.particles[i];
  double heat = heat_at(plate, state.heat, static_cast<int>(p.x * plate.width), static_cast<int>(p.y * plate.width));
  double dx = p.x - 0.5, dy = p.y - 0.5;
  double factor = pull(plate, force_on(i), std::hypot(dx, dy));
  double drag = plate.drag * std::pow(std::hypot(p.vx, p.vy) + 1e-6, 1.5) * (1 + std::log1p(heat));
  double kick = std::sqrt(heat) * std::sin(0.1 * i + 0.37 * step);
  p.vx += plate.time_step * (factor * dx - drag * p.vx + kick);
  p.vy += plate.time_step * (factor * dy - drag * p.vy - kick);
  p.x += plate.time_step * p.vx;
  p.y += plate.time_step * p.vy;
  reflect(p.x, p.vx, state.bounces);
  reflect(p.y, p.vy, state.bounces);
}

State reference_run(const Plate &plate, State state, int steps) {
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < static_cast<int>(state.particles.size()); ++i)
      move(plate, state, i, step);
    state.heat = diffused(plate, state.heat);
  }
  for (double heat : state.heat)
    state.total_heat += heat;
  state.peak_heat = *std::max_element(state.heat.begin(), state.heat.end());
  for (const Particle &p : state.particles)
    state.kinetic_energy += 0.5 * (p.vx * p.vx + p.vy * p.vy);
  return state;
}

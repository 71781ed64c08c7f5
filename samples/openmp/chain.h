// A chain of beads that swings over a floor: what host and device share.
#pragma once

#include <vector>

struct Settings {
  double time_step;
  double stiffness;
  // Pushes every bead the same way.
  double wind;
  double floor;
  // Air resists in bands of speed: this is how wide they are.
  double band;
};

struct State {
  std::vector<double> height;
  std::vector<double> speed;
  int bounces = 0;
  double energy = 0;
  double peak = 0;
};

// The wind turns after this many of the steps.
constexpr int calm_steps = 150;
constexpr int steps = 400;

// The fastest band of all.
enum { last_band = 3 };

// reference.cpp: the run on the host, straight from the formulas.
State initial_state(int count);
State host_run(State state, Settings settings, double gust);

// A field of pendulums that swing in air: what host and device agree on.
//
// Plain C++, so that reference.cpp (the host's own computation) needs no CUDA.
#pragma once

#include <vector>

struct Pendulum {
  double angle, speed;
};

// Constants of one run. The host sets them once; the device files of both compilers read them.
struct Air {
  double density;
  double wind;
  double time_step;
};

enum Force { FORCE_WEIGHT, FORCE_SPRING, FORCE_COUNT };

struct State {
  std::vector<Pendulum> pendulums;
  double energy = 0;
  double fastest = 0;
  unsigned long long swings = 0; // passages of the lowest point
};

std::vector<Pendulum> initial_pendulums(int count);

// The same run on the host, written apart from the device code.
State reference_run(const Air &air, std::vector<Pendulum> pendulums, int steps);

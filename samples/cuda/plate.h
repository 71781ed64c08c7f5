// A heated plate with particles drifting over it: what host and device agree on.
//
// Plain C++, so that reference.cpp (the host's own computation) needs no CUDA.
#pragma once

#include <vector>

// Constants of one run. The host sets them once; every device file reads them.
struct Plate {
  int width;           // grid cells in each direction
  double conductivity; // share of a neighbour's excess heat that flows in one step
  double time_step;
  double stiffness; // of the spring that pulls particles to the middle
  double charge;    // of the screened field
  double screening; // its length
  double drag;      // coefficient of the power-law drag
};

struct Particle {
  double x, y;
  double vx, vy;
};

enum Force { FORCE_SPRING, FORCE_SCREENED, FORCE_COUNT };

inline Force force_on(int particle) { return static_cast<Force>(particle % FORCE_COUNT); }

// Where a run starts, and what came out of it.
struct State {
  std::vector<double> heat;
  std::vector<Particle> particles;
  unsigned long long bounces = 0; // reflections at the plate's rim
  double total_heat = 0;
  double peak_heat = 0;
  double kinetic_energy = 0;
};

State initial_state(const Plate &plate, int particle_count);

// The same run on the host, written apart from the device code.
State reference_run(const Plate &plate, State state, int steps);

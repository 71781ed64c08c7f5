// Air, by a table that no other file knows and that a constructor fills on the device itself.
#include "../device.h"

#pragma omp begin declare target

static double resistance[last_band + 1];

static bool filled = [] {
  for (int band = 0; band <= last_band; ++band)
    resistance[band] = 0.02 + 0.03 * band * band;
  return true;
}();

double drag(double speed) {
  double size = speed < 0 ? -speed : speed;
  int band = static_cast<int>(size / settings.band);
  return filled ? -resistance[band < last_band ? band : last_band] * speed : 0;
}

#pragma omp end declare target

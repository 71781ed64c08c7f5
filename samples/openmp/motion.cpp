// One step of the chain: forces come from a library, settings from another file, bounces stay on the device.
#include "device.h"

int bounces = 0;

void accelerate(const double *height, double *speed, int count) {
#pragma omp target teams distribute parallel for
  for (int i = 1; i < count - 1; ++i)
    speed[i] += settings.time_step * (spring(height[i - 1], height[i], height[i + 1]) + drag(speed[i]) + settings.wind);
}

void move(double *height, double *speed, int count) {
#pragma omp target teams distribute parallel for
  for (int i = 1; i < count - 1; ++i) {
    height[i] += settings.time_step * speed[i];
    if (height[i] >= settings.floor)
      continue;
    height[i] = 2 * settings.floor - height[i];
    speed[i] = -speed[i];
#pragma omp atomic
    ++bounces;
  }
}

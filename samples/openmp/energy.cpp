// Sums and maxima over the chain, by OpenMP reductions.
#include "device.h"

#include <algorithm>

double energy(const double *height, const double *speed, int count) {
  double sum = 0;
#pragma omp target teams distribute parallel for reduction(+ : sum) map(tofrom : sum)
  for (int i = 1; i < count; ++i) {
    double stretch = height[i] - height[i - 1];
    sum += 0.5 * speed[i] * speed[i] + 0.5 * settings.stiffness * stretch * stretch;
  }
  return sum;
}

double peak(const double *height, int count) {
  double highest = height[0];
#pragma omp target teams distribute parallel for reduction(max : highest) map(tofrom : highest)
  for (int i = 0; i < count; ++i)
    highest = std::max(highest, height[i]);
  return highest;
}

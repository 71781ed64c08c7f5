// Device functions and variables that cross translation units, and the target regions over the whole chain.
#pragma once

#include "chain.h"

#pragma omp begin declare target

// main.cpp; the host changes it between two steps.
extern Settings settings;
// motion.cpp; counted on the device, read by the host.
extern int bounces;

// libforces.a
double spring(double left, double here, double right);
double drag(double speed);

#pragma omp end declare target

// motion.cpp; both arrays are on the device already.
void accelerate(const double *height, double *speed, int count);
void move(double *height, double *speed, int count);

// energy.cpp
double energy(const double *height, const double *speed, int count);
double peak(const double *height, int count);

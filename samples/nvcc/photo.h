// A photograph from a sensor, developed: what host and device agree on.
//
// Plain C++, so that reference.cpp (the host's own computation) needs no CUDA. Levels are integers, so that host
// and device agree on every one.
#pragma once

#include <vector>

constexpr unsigned white = 65535;

// Constants of one run. The host sets them once; every device file reads them.
struct Settings {
  int width, height;
  int shear;          // rows by which the sensor's last column is too low
  unsigned gain;      // in 256ths
  unsigned threshold; // tiles with a brighter middle are solarized
  unsigned grain;     // seed of the film's grain
};

constexpr int tile = 16;      // pixels on each side
constexpr int bin_count = 16; // of the histogram

enum Curve { CURVE_LIFT, CURVE_SHOULDER, CURVE_GAMMA, CURVE_COUNT };

// Each tile gets the curve after its neighbour's, so that every one is used.
inline Curve curve_at(int x, int y) { return static_cast<Curve>((x / tile + y / tile) % CURVE_COUNT); }

// What came out of a run.
struct Photo {
  std::vector<unsigned> pixels;
  std::vector<unsigned> histogram;
  unsigned long long clipped = 0;   // pixels that the gain made brighter than white
  unsigned long long solarized = 0; // tiles
  unsigned long long level_sum = 0; // of all pixels
};

std::vector<unsigned> sensor_data(const Settings &settings);

// The same run on the host, written apart from the device code.
Photo reference_run(const Settings &settings, const std::vector<unsigned> &sensor);

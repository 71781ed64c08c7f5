// The run on the host, straight from the formulas: nothing here is shared with the device code.
#include "photo.h"

#include <algorithm>
#include <cmath>

std::vector<unsigned> sensor_data(const Settings &settings) {
  std::vector<unsigned> levels;
  for (int y = 0; y < settings.height; ++y)
    for (int x = 0; x < settings.width; ++x)
      levels.push_back((x * 211 + y * 307 + x * y) % 50021);
  return levels;
}

static unsigned curved(Curve curve, unsigned level) {
  switch (curve) {
  case CURVE_LIFT:
    return white - (white - level) * (white - level) / white;
  case CURVE_SHOULDER:
    return level - level * level / (2 * white);
  default:
    return static_cast<unsigned>(white * std::pow(level / static_cast<double>(white), 1 / 2.2));
  }
}

static void solarize_tile(const Settings &settings, Photo &photo, int left, int top) {
  if (photo.pixels[(top + tile / 2) * settings.width + left + tile / 2] <= settings.threshold)
    return;
  ++photo.solarized;
  for (int y = top; y < top + tile; ++y)
    for (int x = left; x < left + tile; ++x) {
      unsigned &level = photo.pixels[y * settings.width + x];
      level = level > white / 2 ? white - level : level;
    }
}

Photo reference_run(const Settings &settings, const std::vector<unsigned> &sensor) {
  Photo photo;
  for (int y = 0; y < settings.height; ++y)
    for (int x = 0; x < settings.width; ++x) {
      int row = std::min(y + x * settings.shear / settings.width, settings.height - 1);
      unsigned level = sensor[row * settings.width + settings.width - 1 - x] * settings.gain / 256;
      photo.clipped += level > white;
      level = curved(curve_at(x, y), std::min(level, white));
      unsigned noise = (y * settings.width + x + settings.grain) * 2654435761u >> 24;
      photo.pixels.push_back(level > noise ? level - noise : 0);
    }
  for (int top = 0; top < settings.height; top += tile)
    for (int left = 0; left < settings.width; left += tile)
      solarize_tile(settings, photo, left, top);
  photo.histogram.resize(bin_count);
  for (unsigned level : photo.pixels) {
    photo.level_sum += level;
    ++photo.histogram[level * bin_count / (white + 1)];
  }
  return photo;
}

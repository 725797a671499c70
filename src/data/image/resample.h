// Resizing with a triangle kernel.
#pragma once

#include <array>
#include <cstdint>

#include "data/image/jpeg.h"
#include "sullae/data/image.h"

namespace sullae::data {

/// Pixels to read from: [region.rows, region.columns, channels] of a larger image.
struct PixelView {
  const std::uint8_t* pixels = nullptr;
  PixelRegion region;
  std::size_t channels = 3;
};

struct ResampleOptions {
  std::size_t rows = 0;
  std::size_t columns = 0;
  bool mirrored = false;
  /// result = (pixel / 255 - mean) / deviation
  std::array<float, 3> mean = {};
  std::array<float, 3> deviation = {1, 1, 1};
};

/// Resizes the part `from` of an image, of which `view` must hold all that lies in it, to `output`,
/// [3, rows, columns]. Bilinear; where it shrinks, the kernel is widened as much, so that every
/// pixel counts. Pixels outside `from` count for nothing.
void resample(const PixelView& view, const Region& from, const ResampleOptions& options,
              float* output);

}  // namespace sullae::data

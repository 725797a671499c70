// A JPEG file, decoded in part and at reduced size.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "sullae/data/image.h"

namespace sullae::data {

/// Whole pixels of an image.
struct PixelRegion {
  std::size_t row = 0;
  std::size_t column = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;
};

/// Some of an image's pixels: those of `region`.
struct PartialImage {
  Image pixels;
  PixelRegion region;
};

/// Used by one thread.
class JpegDecoder {
 public:
  /// Reads the header. `jpeg` must outlive the object. Throws DamagedRecord.
  explicit JpegDecoder(std::string_view jpeg);
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  ImageSize size() const;
  /// The size when reduced to `eighths` / 8.
  ImageSize scaled_size(unsigned eighths) const;
  /// Decodes at `eighths` / 8 of the size at least `region`, which lies within scaled_size().
  /// Called once.
  PartialImage decode(unsigned eighths, const PixelRegion& region);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sullae::data

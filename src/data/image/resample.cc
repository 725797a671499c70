#include "data/image/resample.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace sullae::data {
namespace {

// The pixels that make one of the result, and how much each counts.
struct Taps {
  std::size_t first = 0;
  std::size_t count = 0;
  const float* weights = nullptr;
};

// Of a row or a column: `from` and `length` say what part of the image is resized to `size` pixels;
// [begin, end) are the pixels at hand.
class Axis {
 public:
  Axis(double from, double length, std::size_t size, std::size_t begin, std::size_t end) {
    const double scale = length / static_cast<double>(size);
    const double support = std::max(scale, 1.0);
    const auto lowest = std::max(static_cast<double>(begin), std::floor(from));
    const auto highest = std::min(static_cast<double>(end), std::ceil(from + length));
    taps_.resize(size);
    std::vector<std::size_t> offsets;
    for (std::size_t i = 0; i < size; ++i) {
      const double centre = from + (static_cast<double>(i) + 0.5) * scale;
      const double first = std::clamp(std::floor(centre - support + 0.5), lowest, highest - 1);
      const double last = std::clamp(std::floor(centre + support + 0.5), first + 1, highest);
      const std::size_t start = weights_.size();
      double sum = 0;
      for (auto p = static_cast<std::size_t>(first); p < static_cast<std::size_t>(last); ++p) {
        const double weight =
            std::max(0.0, 1 - std::abs(static_cast<double>(p) + 0.5 - centre) / support);
        weights_.push_back(static_cast<float>(weight));
        sum += weight;
      }
      for (std::size_t w = start; w < weights_.size(); ++w)
        weights_[w] = sum > 0 ? static_cast<float>(weights_[w] / sum) : (w == start ? 1.0F : 0.0F);
      taps_[i] = {static_cast<std::size_t>(first) - begin, weights_.size() - start, nullptr};
      offsets.push_back(start);
    }
    for (std::size_t i = 0; i < size; ++i) taps_[i].weights = weights_.data() + offsets[i];
  }

  const Taps& operator[](std::size_t i) const { return taps_[i]; }
  /// The first pixel, and one past the last, that any result needs.
  std::size_t begin() const { return std::ranges::min_element(taps_, {}, &Taps::first)->first; }
  std::size_t end() const {
    std::size_t end = 0;
    for (const Taps& taps : taps_) end = std::max(end, taps.first + taps.count);
    return end;
  }

 private:
  std::vector<Taps> taps_;
  std::vector<float> weights_;
};

// A weighted sum of rows. The compiler makes vectors of it.
void blend_rows(const std::uint8_t* pixels, std::size_t stride, const Taps& taps, std::size_t bytes,
                float* __restrict sum) {
  std::fill_n(sum, bytes, 0.0F);
  for (std::size_t t = 0; t < taps.count; ++t) {
    const std::uint8_t* const row = pixels + (taps.first + t) * stride;
    const float weight = taps.weights[t];
    for (std::size_t i = 0; i < bytes; ++i) sum[i] += weight * static_cast<float>(row[i]);
  }
}

// Four floats at once: a pixel and what follows it, which is thrown away.
using Four [[gnu::vector_size(16), gnu::aligned(4), gnu::may_alias]] = float;

}  // namespace

void resample(const PixelView& view, const Region& from, const ResampleOptions& options,
              float* output) {
  const PixelRegion& have = view.region;
  const Axis rows(from.row, from.rows, options.rows, have.row, have.row + have.rows);
  const Axis columns(from.column, from.columns, options.columns, have.column,
                     have.column + have.columns);
  const std::size_t plane = options.rows * options.columns;
  const std::size_t channels = view.channels;
  const std::size_t stride = have.columns * channels;
  const std::size_t first = columns.begin() * channels;
  const std::size_t bytes = columns.end() * channels - first;
  float scale[3];
  float shift[3];
  for (std::size_t c = 0; c < 3; ++c) {
    scale[c] = 1 / (255 * options.deviation[c]);
    shift[c] = -options.mean[c] / options.deviation[c];
  }
  // Rows first: a sum of whole rows needs no gathering. What is read past the last pixel is thrown
  // away.
  std::vector<float> blended(bytes + 4);
  for (std::size_t row = 0; row < options.rows; ++row) {
    blend_rows(view.pixels + first, stride, rows[row], bytes, blended.data());
    for (std::size_t column = 0; column < options.columns; ++column) {
      const Taps& taps = columns[column];
      const float* place = blended.data() + taps.first * channels - first;
      Four sum = {0, 0, 0, 0};
      for (std::size_t t = 0; t < taps.count; ++t, place += channels)
        sum += *reinterpret_cast<const Four*>(place) * taps.weights[t];
      const std::size_t at =
          row * options.columns + (options.mirrored ? options.columns - 1 - column : column);
      for (std::size_t c = 0; c < 3; ++c)
        output[c * plane + at] = sum[channels == 3 ? c : 0] * scale[c] + shift[c];
    }
  }
}

}  // namespace sullae::data

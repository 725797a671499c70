#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "data/image/jpeg.h"
#include "data/image/resample.h"
#include "sullae/data/dataset.h"
#include "sullae/data/image.h"

namespace sullae::data {
namespace {

Region middle(ImageSize size, double side) {
  return {(static_cast<double>(size.rows) - side) / 2,
          (static_cast<double>(size.columns) - side) / 2, side, side};
}

// As C. Szegedy et al. (2015) describe and torchvision does it: ten attempts, then the largest
// middle part of an allowed aspect.
Region random_region(ImageSize size, const ImageTransformOptions& options, Random& random) {
  const auto height = static_cast<double>(size.rows);
  const auto width = static_cast<double>(size.columns);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = width * height * random.uniform(options.min_area, options.max_area);
    const double aspect =
        std::exp(random.uniform(std::log(options.min_aspect), std::log(options.max_aspect)));
    const double columns = std::round(std::sqrt(area * aspect));
    const double rows = std::round(std::sqrt(area / aspect));
    if (columns < 1 || rows < 1 || columns > width || rows > height) continue;
    const auto places = [](double room) {
      return static_cast<std::uint64_t>(room) + 1;
    };
    const auto row = static_cast<double>(random.below(places(height - rows)));
    const auto column = static_cast<double>(random.below(places(width - columns)));
    return {row, column, rows, columns};
  }
  const double aspect = std::clamp(width / height, options.min_aspect, options.max_aspect);
  const double columns = std::min(width, height * aspect);
  const double rows = std::min(height, width / aspect);
  return {(height - rows) / 2, (width - columns) / 2, rows, columns};
}

// The whole pixels that a region touches.
PixelRegion cover(const Region& region, ImageSize size) {
  const auto begin = [](double from) {
    return static_cast<std::size_t>(std::max(0.0, std::floor(from)));
  };
  const auto end = [](double to, std::size_t most) {
    return std::min(most, static_cast<std::size_t>(std::ceil(to)));
  };
  PixelRegion pixels{begin(region.row), begin(region.column)};
  pixels.rows = std::max<std::size_t>(1, end(region.row + region.rows, size.rows) - pixels.row);
  pixels.columns =
      std::max<std::size_t>(1, end(region.column + region.columns, size.columns) - pixels.column);
  return pixels;
}

Region scaled(const Region& region, double rows, double columns) {
  return {region.row * rows, region.column * columns, region.rows * rows, region.columns * columns};
}

// Moves an image within its frame; black comes in from outside.
void shift_image(const float* from, std::size_t size, long down, long right, bool mirrored,
                 const ImageTransformOptions& options, float* output) {
  const auto side = static_cast<long>(size);
  for (std::size_t c = 0; c < 3; ++c) {
    const float black = -options.mean[c] / options.deviation[c];
    for (long row = 0; row < side; ++row) {
      for (long column = 0; column < side; ++column) {
        const long source_row = row - down;
        const long source_column = (mirrored ? side - 1 - column : column) - right;
        const bool inside =
            source_row >= 0 && source_row < side && source_column >= 0 && source_column < side;
        *output++ = inside ? from[(static_cast<long>(c) * side + source_row) * side + source_column]
                           : black;
      }
    }
  }
}

void require(bool holds, const char* what) {
  if (!holds) throw InputError(fmt::format("image transform: {}", what));
}

}  // namespace

ImageTransform::ImageTransform(const ImageTransformOptions& options) : options_(options) {
  require(options.size >= 1 && options.size <= 8192, "the size must be from 1 to 8192");
  require(options.min_area > 0 && options.min_area <= options.max_area && options.max_area <= 1,
          "expected 0 < smallest area <= largest area <= 1");
  require(options.min_aspect > 0 && options.min_aspect <= options.max_aspect,
          "expected 0 < smallest aspect <= largest aspect");
  require(options.centre_share > 0 && options.centre_share <= 1,
          "expected 0 < share of the middle <= 1");
  require(std::ranges::all_of(options.deviation, [](float d) { return d > 0; }),
          "deviations must be above 0");
}

ImageTransform::Choice ImageTransform::choose(ImageSize size, Random& random) const {
  const auto shorter = static_cast<double>(std::min(size.rows, size.columns));
  Choice choice;
  switch (options_.augmentation) {
    case Augmentation::none:
      choice.region = middle(size, shorter * options_.centre_share);
      return choice;
    case Augmentation::random_resized_crop:
      choice.region = random_region(size, options_, random);
      break;
    case Augmentation::padded_crop:
      choice.region = middle(size, shorter);
      break;
  }
  choice.mirrored = options_.mirror && random.below(2) == 1;
  return choice;
}

void ImageTransform::apply(const Example& example, Random random, float* output) const {
  if (const auto* const jpeg = example.bytes(feature::kImage)) {
    apply(*jpeg, random, output);
    return;
  }
  const auto* const pixels = example.bytes(feature::kPixels);
  const auto* const rows = example.integer(feature::kRows);
  const auto* const columns = example.integer(feature::kColumns);
  if (pixels == nullptr || rows == nullptr || columns == nullptr) {
    throw DamagedRecord(
        fmt::format("has no image: expected the feature '{}', or '{}', '{}' and '{}'",
                    feature::kImage, feature::kPixels, feature::kRows, feature::kColumns));
  }
  constexpr std::int64_t kLargest = 1 << 20;
  const bool sane = *rows > 0 && *columns > 0 && *rows < kLargest && *columns < kLargest;
  const auto area = sane ? static_cast<std::size_t>(*rows * *columns) : 0;
  if (!sane || (pixels->size() != area && pixels->size() != 3 * area)) {
    throw DamagedRecord(fmt::format("has {} bytes of pixels, expected {} x {}, once or three times",
                                    pixels->size(), *rows, *columns));
  }
  apply(reinterpret_cast<const std::uint8_t*>(pixels->data()),
        {static_cast<std::size_t>(*rows), static_cast<std::size_t>(*columns)},
        pixels->size() / area, random, output);
}

void ImageTransform::apply(std::string_view jpeg, Random random, float* output) const {
  JpegDecoder decoder(jpeg);
  const ImageSize size = decoder.size();
  if (options_.augmentation == Augmentation::padded_crop) {
    const Image image = decoder.decode(8, {0, 0, size.rows, size.columns}).pixels;
    apply(image.pixels.data(), size, 3, random, output);
    return;
  }
  const Choice choice = choose(size, random);
  // The smallest that has enough pixels.
  const double needed =
      static_cast<double>(options_.size) / std::min(choice.region.rows, choice.region.columns);
  const auto eighths = static_cast<unsigned>(std::clamp(std::ceil(8 * needed), 1.0, 8.0));
  const ImageSize reduced = decoder.scaled_size(eighths);
  const Region region =
      scaled(choice.region, static_cast<double>(reduced.rows) / static_cast<double>(size.rows),
             static_cast<double>(reduced.columns) / static_cast<double>(size.columns));
  const PartialImage part = decoder.decode(eighths, cover(region, reduced));
  resample({part.pixels.pixels.data(), part.region, 3}, region,
           {options_.size, options_.size, choice.mirrored, options_.mean, options_.deviation},
           output);
}

void ImageTransform::apply(const std::uint8_t* pixels, ImageSize size, std::size_t channels,
                           Random random, float* output) const {
  const Choice choice = choose(size, random);
  const PixelView view{pixels, {0, 0, size.rows, size.columns}, channels};
  ResampleOptions resampling{options_.size, options_.size, choice.mirrored, options_.mean,
                             options_.deviation};
  if (options_.augmentation != Augmentation::padded_crop) {
    resample(view, choice.region, resampling, output);
    return;
  }
  resampling.mirrored = false;
  std::vector<float> still(3 * options_.size * options_.size);
  resample(view, choice.region, resampling, still.data());
  const auto room = static_cast<std::uint64_t>(options_.size / 8);
  const auto move = [&] {
    return static_cast<long>(random.below(2 * room + 1)) - static_cast<long>(room);
  };
  const long down = move();
  const long right = move();
  shift_image(still.data(), options_.size, down, right, choice.mirrored, options_, output);
}

}  // namespace sullae::data

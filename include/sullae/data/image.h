// JPEG images as the input of a network: decoded in part and at reduced size, cropped, resized,
// mirrored and normalised.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sullae/data/example.h"
#include "sullae/data/order.h"

namespace sullae::data {

/// Red, green and blue bytes: [rows, columns, 3].
struct Image {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<std::uint8_t> pixels;
};

struct ImageSize {
  std::size_t rows = 0;
  std::size_t columns = 0;
};

/// From the header of a JPEG file. Throws DamagedRecord for what is no JPEG, or one that the
/// decoder does not take: other than 8 bits a sample, or other than grey or YCbCr/RGB colours
/// (CMYK).
ImageSize jpeg_size(std::string_view jpeg);

/// Decodes a JPEG file; grey ones get three equal channels. Throws DamagedRecord as jpeg_size does,
/// and for files that are truncated or damaged.
Image decode_jpeg(std::string_view jpeg);

/// A rectangle of an image, in its pixels.
struct Region {
  double row = 0;
  double column = 0;
  double rows = 0;
  double columns = 0;
};

enum class Augmentation {
  none,                 ///< for validation: resized by the shorter side, the middle cut out
  random_resized_crop,  ///< a random part of random aspect (C. Szegedy et al. 2015), and mirrored
  padded_crop,          ///< moved by up to an eighth of its size, and mirrored (as usual for CIFAR)
};

struct ImageTransformOptions {
  /// The result has `size` × `size` pixels.
  std::size_t size = 224;
  Augmentation augmentation = Augmentation::none;
  /// Of random_resized_crop: the share of the image's area, and width over height.
  double min_area = 0.08;
  double max_area = 1;
  double min_aspect = 3.0 / 4;
  double max_aspect = 4.0 / 3;
  bool mirror = true;
  /// Of `none`: the shorter side is resized to size / this before the middle is cut out.
  double centre_share = 0.875;
  /// Of each channel, in the range [0, 1]; ImageNet's.
  std::array<float, 3> mean = {0.485F, 0.456F, 0.406F};
  std::array<float, 3> deviation = {0.229F, 0.224F, 0.225F};
};

/// Makes network inputs of images. Any thread may call one object.
///
/// Resizing is bilinear with the kernel widened when shrinking, as Pillow does it. JPEG files are
/// decoded at the smallest of the sizes 1/8 … 8/8 that is not below the result, and only where the
/// result needs them.
class ImageTransform {
 public:
  /// Throws InputError for options that cannot be.
  explicit ImageTransform(const ImageTransformOptions& options);

  /// Of `example`'s image (feature::kImage, or kPixels with kRows and kColumns) to `output`,
  /// [3, size, size]. `random` decides the augmentation. Throws DamagedRecord.
  void apply(const Example& example, Random random, float* output) const;
  /// Of a JPEG file.
  void apply(std::string_view jpeg, Random random, float* output) const;
  /// Of decoded pixels, [rows, columns, channels]; 1 or 3 channels.
  void apply(const std::uint8_t* pixels, ImageSize size, std::size_t channels, Random random,
             float* output) const;

  const ImageTransformOptions& options() const { return options_; }

 private:
  struct Choice {
    Region region;
    bool mirrored = false;
  };
  Choice choose(ImageSize size, Random& random) const;

  ImageTransformOptions options_;
};

}  // namespace sullae::data

// MNIST and what looks like it: small grey images, all in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace sullae::data {

/// Labelled grey images of one size.
struct ImageSet {
  std::size_t rows = 0;
  std::size_t columns = 0;
  /// [count, rows, columns], 0 is background.
  std::vector<std::uint8_t> pixels;
  /// [count]
  std::vector<std::uint8_t> labels;

  std::size_t size() const { return labels.size(); }
};

/// Reads a pair of IDX files (Y. LeCun, C. Cortes, C. Burges: the MNIST database): unsigned bytes
/// with three dimensions and with one, plain or gzip-compressed (a missing "name" is looked for as
/// "name.gz"). `classes` bounds the labels.
ImageSet read_idx(const std::filesystem::path& images, const std::filesystem::path& labels,
                  int classes);

/// The four files of MNIST in `directory`.
struct Mnist {
  ImageSet train;
  ImageSet test;
};
Mnist read_mnist(const std::filesystem::path& directory);

/// Digits that are drawn, not recorded: strokes under a random affine distortion, thickness and
/// noise. The same `seed` gives the same images, 28 × 28 as MNIST's.
ImageSet draw_digits(std::size_t count, std::uint64_t seed);

}  // namespace sullae::data

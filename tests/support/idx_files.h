// A small data set in MNIST's files, for tests that train.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "sullae/data.h"

namespace sullae::testing {

inline void write_idx(const std::filesystem::path& directory, const std::string& prefix,
                      const data::ImageSet& set) {
  const auto integer = [](std::size_t value) {
    return std::string{static_cast<char>(value >> 24), static_cast<char>(value >> 16),
                       static_cast<char>(value >> 8), static_cast<char>(value)};
  };
  std::ofstream images(directory / (prefix + "-images-idx3-ubyte"), std::ios::binary);
  images << integer(0x803) << integer(set.size()) << integer(set.rows) << integer(set.columns);
  images.write(reinterpret_cast<const char*>(set.pixels.data()),
               static_cast<std::streamsize>(set.pixels.size()));
  std::ofstream labels(directory / (prefix + "-labels-idx1-ubyte"), std::ios::binary);
  labels << integer(0x801) << integer(set.size());
  labels.write(reinterpret_cast<const char*>(set.labels.data()),
               static_cast<std::streamsize>(set.labels.size()));
}

/// Drawn digits: `train` and `test` of them.
inline void write_small_mnist(const std::filesystem::path& directory, std::size_t train,
                              std::size_t test) {
  write_idx(directory, "train", data::draw_digits(train, 1));
  write_idx(directory, "t10k", data::draw_digits(test, 2));
}

}  // namespace sullae::testing

// A small set of labelled images, red ones and blue ones.
#pragma once

#include <filesystem>
#include <string>

#include "data/images.h"
#include "sullae/data.h"

namespace sullae::testing {

inline std::string red_or_blue(int i) {
  const bool red = i % 2 == 0;
  return one_colour_jpeg(16, 16, red ? 200 - i : 30, 40 + i, red ? 30 : 200 - i);
}

/// "train.tar" and "test.tar" in `directory`; even images are red.
inline void write_small_images(const std::filesystem::path& directory, int train, int test) {
  std::filesystem::create_directories(directory);
  const auto write = [&](const char* name, int begin, int end) {
    data::TarWriter tar(directory / name);
    for (int i = begin; i < end; ++i)
      tar.write((i % 2 == 0 ? "red/" : "blue/") + std::to_string(i) + ".jpg", red_or_blue(i));
    tar.close();
  };
  write("train.tar", 0, train);
  write("test.tar", train, train + test);
}

}  // namespace sullae::testing

#include <algorithm>

#include "fuzz/memory_file.h"
#include "sullae/data/digits.h"

// The first byte says how many of the others are the images' file; the rest are the labels'.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t bytes = std::min<std::size_t>(data[0], size - 1);
  const auto images = sullae::fuzz::memory_file<0>(data + 1, bytes);
  const auto labels = sullae::fuzz::memory_file<1>(data + 1 + bytes, size - 1 - bytes);
  sullae::fuzz::expect_no_more_than_an_error([&] {
    const auto set = sullae::data::read_idx(images, labels, 10);
    // Who reads a sample takes its pixels to be there.
    if (set.size() > 0 && set.pixels.size() / set.size() != set.rows * set.columns) std::abort();
  });
  return 0;
}

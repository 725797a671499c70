#include "fuzz/memory_file.h"
#include "sullae/data/digits.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = sullae::fuzz::memory_file(data, size);
  sullae::fuzz::expect_no_more_than_an_error([&] { sullae::data::read_idx(file, file, 10); });
  return 0;
}

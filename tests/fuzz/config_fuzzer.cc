#include "fuzz/memory_file.h"
#include "serve/model/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = sullae::fuzz::memory_file(data, size);
  sullae::fuzz::expect_no_more_than_an_error([&] { sullae::serve::read_model_config(file); });
  return 0;
}

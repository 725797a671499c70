#include "fuzz/memory_file.h"
#include "sullae/data/dataset.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sullae;
  const auto file = fuzz::memory_file(data, size);
  fuzz::expect_no_more_than_an_error([&] {
    const auto set = data::open_dataset({file}, {.format = "jsonl"});
    for (std::size_t i = 0; i < set->size(); ++i)
      fuzz::expect_no_more_than_an_error([&] { set->read(i); });
  });
  return 0;
}

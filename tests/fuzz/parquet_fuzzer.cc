#include "fuzz/memory_file.h"
#include "sullae/data/dataset.h"

// Parquet and Arrow, whichever it begins as.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sullae;
  // A few bytes may say that there are billions of rows.
  constexpr std::size_t kMost = 100;
  const auto file = fuzz::memory_file(data, size);
  for (const char* format : {"parquet", "arrow"}) {
    fuzz::expect_no_more_than_an_error([&] {
      const auto set = data::open_dataset({file}, {.format = format, .unlabelled = true});
      for (std::size_t i = 0; i < std::min(kMost, set->size()); ++i)
        fuzz::expect_no_more_than_an_error([&] { set->read(i); });
      if (set->size() > kMost)
        fuzz::expect_no_more_than_an_error([&] { set->read(set->size() - 1); });
    });
  }
  return 0;
}

#include <cstdlib>

#include "fuzz/memory_file.h"
#include "sullae/data/example.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sullae;
  fuzz::expect_no_more_than_an_error([&] {
    const auto example = data::parse_example({reinterpret_cast<const char*>(data), size});
    // Floats may be NaN, which equals nothing: compare what is written.
    const auto bytes = data::serialize(example);
    if (data::serialize(data::parse_example(bytes)).size() != bytes.size()) std::abort();
  });
  return 0;
}

#include "fuzz/memory_file.h"
#include "sullae/data/dataset.h"
#include "sullae/data/tfrecord.h"

namespace {

void read_all(const std::string& bytes) {
  using namespace sullae;
  const auto file =
      fuzz::memory_file(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  fuzz::expect_no_more_than_an_error([&] {
    const auto set = data::open_dataset({file}, {.format = "tfrecord"});
    for (std::size_t i = 0; i < set->size(); ++i)
      fuzz::expect_no_more_than_an_error([&] { set->read(i); });
  });
  fuzz::expect_no_more_than_an_error([&] {
    data::TFRecordReader reader(file);
    while (reader.next()) continue;
  });
}

}  // namespace

// Once as it is, and once within a frame whose checksums fit, so that what is behind them is
// reached.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  read_all(bytes);
  read_all(sullae::data::frame_record(bytes) + bytes.substr(0, size / 2));
  return 0;
}

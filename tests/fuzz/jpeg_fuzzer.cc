#include <vector>

#include "fuzz/memory_file.h"
#include "sullae/data/image.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sullae;
  constexpr std::size_t kMostPixels = 1U << 20;  // larger ones are slow, not wrong
  const std::string_view jpeg(reinterpret_cast<const char*>(data), size);
  fuzz::expect_no_more_than_an_error([&] {
    const auto pixels = data::jpeg_size(jpeg);
    if (pixels.rows * pixels.columns > kMostPixels) return;
    for (const auto augmentation :
         {data::Augmentation::none, data::Augmentation::random_resized_crop,
          data::Augmentation::padded_crop}) {
      const data::ImageTransform transform({.size = 16, .augmentation = augmentation});
      std::vector<float> output(std::size_t{3} * 16 * 16);
      fuzz::expect_no_more_than_an_error(
          [&] { transform.apply(jpeg, data::Random(size, 0, 0), output.data()); });
    }
  });
  return 0;
}

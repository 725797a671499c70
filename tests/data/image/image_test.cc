// JPEG decoding and what becomes of images: against values that can be worked out, and against
// decoding the whole.
#include "sullae/data/image.h"

#include <gtest/gtest.h>

#include <cmath>

#include "data/image/jpeg.h"
#include "data/image/resample.h"
#include "data/images.h"
#include "sullae/data/dataset.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace data;

// Smooth, so that compression and reduced decoding change little.
int gradient(unsigned x, unsigned y, int channel) {
  return channel == 0 ? static_cast<int>(x / 2) : (channel == 1 ? static_cast<int>(y / 2) : 128);
}

std::vector<float> transform(const ImageTransform& transform, std::string_view jpeg,
                             std::uint64_t seed = 1) {
  const std::size_t size = transform.options().size;
  std::vector<float> output(3 * size * size);
  transform.apply(jpeg, Random(seed, 0, 0), output.data());
  return output;
}

ImageTransformOptions plain(std::size_t size, double centre_share = 1) {
  return {.size = size, .centre_share = centre_share, .mean = {0, 0, 0}, .deviation = {1, 1, 1}};
}

TEST(Jpeg, IsDecoded) {
  const auto jpeg = make_jpeg({.width = 301, .height = 203}, gradient);
  EXPECT_EQ(jpeg_size(jpeg).columns, 301U);
  const Image image = decode_jpeg(jpeg);
  ASSERT_EQ(image.rows, 203U);
  ASSERT_EQ(image.pixels.size(), 203U * 301 * 3);
  for (const unsigned x : {0U, 150U, 300U}) {
    for (const unsigned y : {0U, 101U, 202U}) {
      for (int c = 0; c < 3; ++c)
        EXPECT_NEAR(image.pixels[(y * 301 + x) * 3 + static_cast<unsigned>(c)], gradient(x, y, c),
                    6);
    }
  }
}

TEST(Jpeg, GreyGetsThreeEqualChannels) {
  const auto jpeg = make_jpeg({.width = 9, .height = 5, .colours = JCS_GRAYSCALE},
                              [](unsigned, unsigned, int) { return 77; });
  const Image image = decode_jpeg(jpeg);
  for (const auto value : image.pixels) EXPECT_NEAR(value, 77, 1);
}

TEST(Jpeg, APartIsTheSameAsThatPartOfTheWhole) {
  const auto jpeg = make_jpeg({.width = 200, .height = 150}, [](unsigned x, unsigned y, int c) {
    return static_cast<int>((x * 7 + y * 13 + static_cast<unsigned>(c) * 50) % 256);
  });
  for (const unsigned eighths : {1U, 3U, 4U, 8U}) {
    const ImageSize size = JpegDecoder(jpeg).scaled_size(eighths);
    const Image whole = JpegDecoder(jpeg).decode(eighths, {0, 0, size.rows, size.columns}).pixels;
    const PixelRegion wanted{size.rows / 3, size.columns / 3, size.rows / 3, size.columns / 3};
    const auto part = JpegDecoder(jpeg).decode(eighths, wanted);
    ASSERT_LE(part.region.column, wanted.column);
    ASSERT_GE(part.region.column + part.region.columns, wanted.column + wanted.columns);
    for (std::size_t row = 0; row < wanted.rows; ++row) {
      for (std::size_t i = 0; i < 3 * wanted.columns; ++i) {
        const auto of_part = part.pixels.pixels[row * part.region.columns * 3 +
                                                (wanted.column - part.region.column) * 3 + i];
        const auto of_whole =
            whole.pixels[((wanted.row + row) * size.columns + wanted.column) * 3 + i];
        ASSERT_EQ(of_part, of_whole) << eighths << ' ' << row << ' ' << i;
      }
    }
  }
}

TEST(Jpeg, SaysWhatIsWrong) {
  const auto error = [](const std::string& bytes) {
    return error_of([&] { decode_jpeg(bytes); });
  };
  EXPECT_EQ(error(""), "is empty, expected a JPEG file");
  EXPECT_EQ(error("hello"), "is no JPEG file, expected a JPEG file");
  EXPECT_EQ(error("\x89PNG\r\n"), "is a PNG file, expected a JPEG file");
  const auto jpeg = make_jpeg({.width = 64, .height = 64}, gradient);
  EXPECT_TRUE(contains(error(jpeg.substr(0, jpeg.size() / 2)),
                       "cannot be decoded: Premature end of JPEG file"));
  EXPECT_TRUE(contains(error(jpeg.substr(0, 20)), "cannot be decoded"));
  EXPECT_TRUE(contains(error(make_jpeg({.colours = JCS_CMYK}, gradient)),
                       "is a JPEG file that has CMYK colours, expected grey, YCbCr or RGB"));
  // The precision stands after the length of the frame header (ITU-T T.81, B.2.2).
  std::string deep = jpeg;
  deep[deep.find("\xff\xc0") + 4] = 16;
  EXPECT_TRUE(contains(error(deep), "16")) << error(deep);
}

// No input may do more than throw.
TEST(Jpeg, StandsAnyDamage) {
  const auto jpeg = make_jpeg({.width = 64, .height = 48}, gradient);
  const ImageTransform random({.size = 16, .augmentation = Augmentation::random_resized_crop});
  for (std::uint64_t i = 0; i < 3000; ++i) {
    std::string bytes = jpeg;
    Random where(7, 0, i);
    for (int change = 0; change < 4; ++change)
      bytes[where.below(bytes.size())] = static_cast<char>(where.next());
    error_of([&] { transform(random, bytes, i); });
    error_of([&] { transform(random, bytes.substr(0, where.below(bytes.size())), i); });
  }
}

TEST(Resample, AnEnlargedOrShrunkGradientStaysOne) {
  std::vector<std::uint8_t> pixels;
  for (int row = 0; row < 100; ++row) {
    for (int column = 0; column < 80; ++column) {
      pixels.push_back(static_cast<std::uint8_t>(2 * row));
      pixels.push_back(static_cast<std::uint8_t>(3 * column));
      pixels.push_back(50);
    }
  }
  for (const std::size_t size : {1, 7, 31, 100, 250}) {
    std::vector<float> output(3 * size * size);
    resample({pixels.data(), {0, 0, 100, 80}, 3}, {10, 20, 80, 40}, {.rows = size, .columns = size},
             output.data());
    // The ends of an enlarged one are flat, half a pixel wide.
    for (std::size_t i = size / 8; i < size - size / 8; ++i) {
      const double at = (static_cast<double>(i) + 0.5) / static_cast<double>(size);
      EXPECT_NEAR(output[i * size + size / 2] * 255, 2 * (10 + 80 * at - 0.5), 2.5) << size;
      EXPECT_NEAR(output[size * size + size / 2 * size + i] * 255, 3 * (20 + 40 * at - 0.5), 3.5)
          << size;
      EXPECT_NEAR(output[2 * size * size + i] * 255, 50, 0.01);
    }
  }
}

TEST(ImageTransforms, ValidationTakesTheMiddle) {
  // A blue frame around red: the middle is red alone.
  const auto jpeg = make_jpeg({.width = 400, .height = 200}, [](unsigned x, unsigned y, int c) {
    const bool inside = x >= 100 && x < 300 && y >= 10 && y < 190;
    return c == (inside ? 0 : 2) ? 255 : 0;
  });
  const auto output = transform(ImageTransform(plain(64, 0.85)), jpeg);
  for (std::size_t i = 0; i < 64 * 64; ++i) {
    ASSERT_NEAR(output[i], 1, 0.05);
    ASSERT_NEAR(output[2 * 64 * 64 + i], 0, 0.05);
  }
}

TEST(ImageTransforms, NormaliseByChannel) {
  auto options = plain(8);
  options.mean = {0.5F, 0.25F, 0};
  options.deviation = {0.5F, 0.25F, 2};
  const auto output = transform(ImageTransform(options), one_colour_jpeg(20, 20, 255, 0, 255));
  EXPECT_NEAR(output[0], 1, 0.02);
  EXPECT_NEAR(output[64], -1, 0.04);
  EXPECT_NEAR(output[128], 0.5, 0.01);
}

TEST(ImageTransforms, RandomCropsAreRandomAndRepeatable) {
  const auto jpeg = make_jpeg({.width = 320, .height = 240}, gradient);
  const ImageTransform random({.size = 32, .augmentation = Augmentation::random_resized_crop});
  EXPECT_EQ(transform(random, jpeg, 5), transform(random, jpeg, 5));
  EXPECT_NE(transform(random, jpeg, 5), transform(random, jpeg, 6));
}

TEST(ImageTransforms, RandomCropsSpreadOverTheImage) {
  const auto jpeg = make_jpeg({.width = 320, .height = 240}, gradient);
  auto options = plain(8);
  options.augmentation = Augmentation::random_resized_crop;
  const ImageTransform random(options);
  double least = 1;
  double most = 0;
  int mirrored = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto output = transform(random, jpeg, seed);
    // Red grows to the right, unless mirrored.
    mirrored += output[0] > output[7] ? 1 : 0;
    least = std::min<double>(least, std::min(output[0], output[7]));
    most = std::max<double>(most, std::max(output[0], output[7]));
  }
  EXPECT_NEAR(mirrored, 100, 40);
  EXPECT_LT(least, 0.05);
  EXPECT_GT(most, 0.58);  // 160 / 255 is the reddest
}

TEST(ImageTransforms, PaddedCropsMoveTheImage) {
  auto options = plain(32);
  options.augmentation = Augmentation::padded_crop;
  const ImageTransform padded(options);
  const auto jpeg = one_colour_jpeg(32, 32, 255, 255, 255);
  int black_rows_seen = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const auto output = transform(padded, jpeg, seed);
    int black = 0;
    for (std::size_t row = 0; row < 32; ++row) black += output[row * 32 + 16] < 0.5F ? 1 : 0;
    EXPECT_LE(black, 4);
    black_rows_seen |= 1 << black;
  }
  EXPECT_EQ(black_rows_seen, 0b11111);
}

TEST(ImageTransforms, TakePixelsToo) {
  Example example;
  example.set(feature::kPixels, std::string(6, '\xff'));
  example.set(feature::kRows, 2);
  example.set(feature::kColumns, 3);
  std::vector<float> output(3 * 4);
  const ImageTransform transform(plain(2));
  transform.apply(example, Random(0, 0, 0), output.data());
  for (const float value : output) EXPECT_NEAR(value, 1, 1e-5);
  example.set(feature::kRows, 4);
  EXPECT_TRUE(contains(error_of([&] { transform.apply(example, Random(0, 0, 0), output.data()); }),
                       "has 6 bytes of pixels, expected 4 x 3, once or three times"));
  EXPECT_TRUE(
      contains(error_of([&] { transform.apply(Example(), Random(0, 0, 0), output.data()); }),
               "has no image"));
}

TEST(ImageTransforms, RefuseWhatCannotBe) {
  EXPECT_TRUE(contains(error_of([] { ImageTransform({.size = 0}); }), "the size must be from 1"));
  EXPECT_TRUE(contains(error_of([] { ImageTransform({.min_area = 0}); }), "smallest area"));
  EXPECT_TRUE(contains(error_of([] { ImageTransform({.deviation = {0, 1, 1}}); }), "deviations"));
}

// A file of some kilobytes that says it is a picture of gigabytes costs nothing.
TEST(Jpeg, PicturesBeyondAllSizesAreRefusedByTheirHeader) {
  auto bytes = one_colour_jpeg(16, 16, 1, 2, 3);
  for (const char frame : {'\xc0', '\xc2'}) {  // baseline, progressive
    for (std::size_t i = 0; i + 9 < bytes.size(); ++i) {
      if (bytes[i] != '\xff' || (bytes[i + 1] != '\xc0' && bytes[i + 1] != '\xc2')) continue;
      bytes[i + 1] = frame;
      bytes.replace(i + 5, 4, "\xff\xdc\xff\xdc");
      break;
    }
    const auto error = error_of([&] { decode_jpeg(bytes); });
    EXPECT_TRUE(contains(error, "has 65500 x 65500 pixels, expected at most")) << error;
  }
}

}  // namespace
}  // namespace sullae::testing

// IDX files, what is said of those that are not what they should be, and digits that are drawn.
#include "data/files.h"
#include "sullae/data/digits.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace data;

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

class Idx : public Files {
 protected:
  static std::string images(std::uint32_t count = 3) {
    return big_endian(0x803) + big_endian(count) + big_endian(2) + big_endian(2) +
           std::string("abcdefghijkl");
  }
  static std::string labels(std::string values = std::string("\0\1\2", 3)) {
    return big_endian(0x801) + big_endian(static_cast<std::uint32_t>(values.size())) + values;
  }
  std::string error(const std::string& image_bytes, const std::string& label_bytes) {
    return error_of(
        [&] { read_idx(write("images", image_bytes), write("labels", label_bytes), 10); });
  }
};

TEST_F(Idx, IsRead) {
  const auto set = read_idx(write("images", images()), write("labels", labels()), 10);
  EXPECT_EQ(set.size(), 3U);
  EXPECT_EQ(set.rows, 2U);
  EXPECT_EQ(set.pixels[4], 'e');
  EXPECT_EQ(set.labels, (std::vector<std::uint8_t>{0, 1, 2}));
}

TEST_F(Idx, IsReadCompressed) {
  write_gzip("images.gz", images());
  write_gzip("labels.gz", labels());
  EXPECT_EQ(read_idx(path("images"), path("labels"), 10).size(), 3U);
}

TEST_F(Idx, SaysWhatIsWrong) {
  EXPECT_NE(error_of([&] {
              read_idx(path("none"), path("none"), 10);
            }).find("none: there is no such file, nor none.gz"),
            std::string::npos);
  EXPECT_NE(error("", labels()).find("images: is truncated: 0 bytes, expected at least the 16"),
            std::string::npos);
  EXPECT_NE(error(labels(), labels()).find("is truncated"), std::string::npos);
  EXPECT_NE(error(big_endian(0x804) + images().substr(4), labels())
                .find("has magic number 0x00000804, expected 0x00000803"),
            std::string::npos);
  EXPECT_NE(error(images().substr(0, 20), labels())
                .find("is truncated: its header announces 3 images of 2 x 2, 28 bytes in all, but "
                      "it has 20"),
            std::string::npos);
  EXPECT_NE(error(images() + "x", labels()).find("is too long"), std::string::npos);
  EXPECT_NE(error(images(), labels("\1\2")).find("expected one label an image"), std::string::npos);
  EXPECT_NE(
      error(images(), labels(std::string("\0\1\12", 3))).find("label 2 is 10, expected 0 to 9"),
      std::string::npos);
}

// Their product is a whole number of times 2^64.
TEST_F(Idx, SizesThatWrapAroundAreFound) {
  const std::string header =
      big_endian(0x803) + big_endian(4) + big_endian(1U << 31) + big_endian(1U << 31);
  const std::string found = error(header, labels(std::string(4, '\0')));
  EXPECT_NE(
      found.find("images: is truncated: its header announces 4 images of 2147483648 x 2147483648, "
                 "more than the 16 bytes that it has"),
      std::string::npos)
      << found;
}

TEST_F(Idx, CompressedAndTruncatedIsFound) {
  const auto file = write_gzip("images.gz", images());
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 10);
  EXPECT_NE(error_of([&] {
              read_idx(path("images"), write("labels", labels()), 10);
            }).find("is truncated: the compressed data ends early"),
            std::string::npos);
}

TEST(DrawnDigits, AreTheSameForTheSameSeed) {
  const auto digits = draw_digits(200, 3);
  EXPECT_EQ(digits.size(), 200U);
  EXPECT_EQ(digits.rows, 28U);
  EXPECT_EQ(digits.pixels, draw_digits(200, 3).pixels);
  EXPECT_NE(digits.pixels, draw_digits(200, 4).pixels);
  std::vector<int> counts(10);
  for (const auto label : digits.labels) ++counts.at(label);
  for (const int count : counts) EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace sullae::testing

// Readers of data sets, and what they say of files that are not what they should be.
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "data/utf8.h"
#include "sullae/data.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using namespace data;

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

class Files : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& bytes) {
    const auto file = directory_.path() / name;
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }
  std::filesystem::path write_gzip(const std::string& name, const std::string& bytes) {
    const auto file = directory_.path() / name;
    gzFile stream = ::gzopen(file.c_str(), "wb");
    ::gzwrite(stream, bytes.data(), static_cast<unsigned>(bytes.size()));
    ::gzclose(stream);
    return file;
  }
  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }
  TemporaryDirectory directory_;
};

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

TEST_F(Idx, CompressedAndTruncatedIsFound) {
  const auto file = write_gzip("images.gz", images());
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 10);
  EXPECT_NE(error_of([&] {
              read_idx(path("images"), write("labels", labels()), 10);
            }).find("is truncated: the compressed data ends early"),
            std::string::npos);
}

class Tsv : public Files {
 protected:
  std::string error(const std::string& bytes) {
    return error_of([&] { read_labelled_tsv(write("ratings.txt", bytes), 2); });
  }
  static constexpr const char* kHeader = "id\tdocument\tlabel\n";
};

TEST_F(Tsv, IsRead) {
  const auto rows = read_labelled_tsv(
      write("r.txt", std::string(kHeader) + "1\t참 좋다 \"정말\"\t1\n2\t\t0\r\n3\tbad\t0"), 2);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].text, "참 좋다 \"정말\"");
  EXPECT_EQ(rows[0].label, 1);
  EXPECT_EQ(rows[1].text, "");
  EXPECT_EQ(rows[2].text, "bad");
}

TEST_F(Tsv, SaysWhereAndWhatIsWrong) {
  EXPECT_NE(error(std::string(kHeader) + "1\ta\t1\n2\tb\n")
                .find("ratings.txt, line 3: has 2 columns, expected 3"),
            std::string::npos);
  EXPECT_NE(error(std::string(kHeader) + "1\ta\tb\t1\n").find("line 2: has 4 columns"),
            std::string::npos);
  EXPECT_NE(
      error(std::string(kHeader) + "1\tab\xc0\xaf\t1\n").find("line 2: byte 5 (0xc0) is not UTF-8"),
      std::string::npos);
  EXPECT_NE(
      error(std::string(kHeader) + "1\ta\t2\n").find("line 2: the label is '2', expected 0 to 1"),
      std::string::npos);
  EXPECT_NE(error(std::string(kHeader) + "1\ta\t\n").find("the label is ''"), std::string::npos);
  EXPECT_NE(error("1\ta\t1\n").find("line 1: expected the header"), std::string::npos);
  EXPECT_NE(error(kHeader).find("has no rows"), std::string::npos);
  EXPECT_NE(error("").find("has no rows"), std::string::npos);
}

TEST(Utf8, IsCheckedByTheBook) {
  EXPECT_EQ(find_invalid_utf8("한글 \xf0\x9f\x98\x80 é"), std::string_view::npos);
  for (const char* bad : {"\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                          "\xf8\x88\x80\x80\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80"}) {
    EXPECT_EQ(find_invalid_utf8(bad), 0U) << bad;
    EXPECT_EQ(find_invalid_utf8(std::string("ab") + bad), 2U) << bad;
  }
}

TEST(Words, AreCutAtWhiteSpace) {
  EXPECT_EQ(split_words("  참  좋다\t! "), (std::vector<std::string_view>{"참", "좋다", "!"}));
  EXPECT_TRUE(split_words(" \t").empty());
}

TEST(VocabularyOf, NumbersWordsByFrequency) {
  const auto vocabulary = Vocabulary::build({{"b a c", 0}, {"a b a", 1}});
  EXPECT_EQ(vocabulary.size(), 5U);
  EXPECT_EQ(vocabulary.number_of("a"), 2);
  EXPECT_EQ(vocabulary.number_of("b"), 3);
  EXPECT_EQ(vocabulary.number_of("c"), 4);
  EXPECT_EQ(vocabulary.number_of("d"), Vocabulary::kUnknown);
  EXPECT_EQ(vocabulary.encode("c d a a", 3), (std::vector<std::int64_t>{4, 1, 2}));
  EXPECT_EQ(vocabulary.encode("", 3), std::vector<std::int64_t>{Vocabulary::kUnknown});
  EXPECT_EQ(Vocabulary::build({{"b a c", 0}, {"a b a", 1}}, 2).size(), 4U);
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

// TFRecord files and tf.train.Example: the published format to the byte, and every way in which a
// file can be damaged.
#include "sullae/data/tfrecord.h"

#include "data/files.h"
#include "data/record/byte_file.h"
#include "sullae/data/dataset.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace data;

class TFRecord : public Files {
 protected:
  std::filesystem::path write_records(const std::string& name,
                                      const std::vector<std::string>& records) {
    TFRecordWriter writer(path(name));
    for (const auto& record : records) writer.write(record);
    writer.close();
    return path(name);
  }
  static std::vector<std::string> read_all(const std::filesystem::path& file) {
    TFRecordReader reader(file);
    std::vector<std::string> records;
    while (const auto record = reader.next()) records.emplace_back(*record);
    return records;
  }
  static Example example(int number) {
    Example example;
    example.set(feature::kText, "text " + std::to_string(number));
    example.set(feature::kTextLabel, number % 3);
    return example;
  }
  std::filesystem::path write_examples(const std::string& name, int count) {
    std::vector<std::string> records;
    for (int i = 0; i < count; ++i) records.push_back(serialize(example(i)));
    return write_records(name, records);
  }
};

TEST_F(TFRecord, HasThePublishedBytes) {
  // What TensorFlow writes for the record "abc".
  const std::string expected(
      "\x03\0\0\0\0\0\0\0"
      "\x37\x1a\x12\x0a"
      "abc"
      "\x1a\xeb\x5e\x35",
      19);
  const std::string bytes = bytes_of(write_records("r.tfrecord", {"abc"}));
  EXPECT_EQ(bytes.substr(0, 8), expected.substr(0, 8));
  EXPECT_EQ(bytes.size(), expected.size());
  // The check value of CRC-32C (RFC 3720, B.4: 32 bytes of zeros), masked.
  const std::uint32_t crc = 0x8a9136aa;
  EXPECT_EQ(masked_crc32c(std::string(32, '\0')), ((crc >> 15) | (crc << 17)) + 0xa282ead8U);
}

TEST_F(TFRecord, ComesBackAsWritten) {
  // Empty, odd, and larger than the reader's buffer.
  const std::vector<std::string> records = {"", "a", std::string(524287, 'x'),
                                            std::string(3000001, 'y'), ""};
  EXPECT_EQ(read_all(write_records("r.tfrecord", records)), records);
  EXPECT_EQ(read_all(write_records("r.tfrecord.gz", records)), records);
  EXPECT_LT(std::filesystem::file_size(path("r.tfrecord.gz")), 100000U);
  EXPECT_TRUE(read_all(write_records("none.tfrecord", {})).empty());
}

// The length of the first record is 1f 8b, as gzip begins.
TEST_F(TFRecord, MayBeginAsGzipDoes) {
  const std::vector<std::string> records = {std::string(0x8b1f, 'x'), "a"};
  const auto file = write_records("r.tfrecord", records);
  EXPECT_EQ(bytes_of(file).substr(0, 2), "\x1f\x8b");
  EXPECT_EQ(read_all(file), records);
  EXPECT_EQ(ByteFile::open(file)->size(), std::filesystem::file_size(file));
  EXPECT_EQ(read_all(write_records("r.tfrecord.gz", records)), records);
}

TEST_F(TFRecord, IsAbsentUntilClosed) {
  { TFRecordWriter(path("r")).write("abc"); }
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(TFRecord, HasDalisIndexBesideIt) {
  write_records("r.tfrecord", {"abc", ""});
  EXPECT_EQ(bytes_of(path("r.tfrecord.idx")), "0 19\n19 16\n");
}

TEST_F(TFRecord, ExamplesKeepEveryKindOfFeature) {
  Example all;
  all.features["bytes"] = std::vector<std::string>{"a", std::string("\0b", 2)};
  all.features["floats"] = std::vector<float>{0.5F, -1e30F};
  all.features["integers"] = std::vector<std::int64_t>{INT64_MIN, 0, INT64_MAX};
  all.features["none"] = std::vector<std::int64_t>{};
  EXPECT_EQ(parse_example(serialize(all)), all);
  EXPECT_EQ(serialize(parse_example(serialize(all))), serialize(all)) << "the same bytes each time";
  EXPECT_EQ(all.bytes("bytes"), nullptr);
  EXPECT_EQ(all.integer("floats"), nullptr);
  EXPECT_TRUE(contains(error_of([] { parse_example("\xff\xff\xff"); }), "is no tf.train.Example"));
}

TEST_F(TFRecord, IsADatasetWithAndWithoutIndex) {
  const auto file = write_examples("r.tfrecord", 7);
  for (const bool with_index : {true, false}) {
    if (!with_index) std::filesystem::remove(path("r.tfrecord.idx"));
    const auto set = open_dataset({file});
    ASSERT_EQ(set->size(), 7U);
    for (const int i : {6, 0, 3}) EXPECT_EQ(set->read(static_cast<std::size_t>(i)), example(i));
  }
  EXPECT_EQ(open_dataset({write_examples("r.tfrecord.gz", 7)})->size(), 7U);
}

TEST_F(TFRecord, AnIndexOfAnotherVersionIsNotBelieved) {
  const auto file = write_examples("r.tfrecord", 7);
  write("r.tfrecord.idx", "0 19\n");
  EXPECT_EQ(open_dataset({file})->size(), 7U);
  write("r.tfrecord.idx", "what is this");
  EXPECT_EQ(open_dataset({file})->size(), 7U);
}

TEST_F(TFRecord, AFlippedBitIsFoundAndTheOthersAreRead) {
  const auto file = write_records("r.tfrecord", {"abc", "def", "ghi"});
  std::string bytes = bytes_of(file);
  bytes[19 + 13] ^= 4;
  write("r.tfrecord", bytes);
  TFRecordReader reader(file);
  EXPECT_EQ(reader.next(), "abc");
  const auto error = error_of([&] { reader.next(); });
  EXPECT_TRUE(
      contains(error, "r.tfrecord, record 1, offset 19: is damaged: its checksum does not fit"))
      << error;
  EXPECT_EQ(reader.next(), "ghi");
  EXPECT_EQ(reader.offset(), 38U);
  EXPECT_EQ(reader.next(), std::nullopt);
  const auto set = open_dataset({file});
  EXPECT_TRUE(contains(error_of([&] { set->read(1); }), "record 1, offset 19: is damaged"));
}

TEST_F(TFRecord, EveryTruncationIsFound) {
  const auto whole = bytes_of(write_examples("whole.tfrecord", 2));
  const std::size_t first = whole.size() / 2;
  for (std::size_t size = 1; size < whole.size(); ++size) {
    if (size == first) continue;
    const auto file = write("r.tfrecord", whole.substr(0, size));
    const int record = size < first ? 0 : 1;
    const auto place = "r.tfrecord, record " + std::to_string(record) + ", offset " +
                       std::to_string(record * static_cast<int>(first)) + ": is truncated";
    const auto sequential = error_of([&] { read_all(file); });
    EXPECT_TRUE(contains(sequential, place)) << size << ": " << sequential;
    const auto opened = error_of([&] { open_dataset({file}, {.format = "tfrecord"}); });
    EXPECT_TRUE(contains(opened, place)) << size << ": " << opened;
  }
}

TEST_F(TFRecord, ADamagedLengthEndsTheFile) {
  const auto file = write_records("r.tfrecord", {"abc", "def"});
  std::string bytes = bytes_of(file);
  bytes[19] ^= 1;
  write("r.tfrecord", bytes);
  std::filesystem::remove(path("r.tfrecord.idx"));
  const std::string expected = "record 1, offset 19: the checksum of its length does not fit";
  EXPECT_TRUE(contains(error_of([&] { read_all(file); }), expected));
  EXPECT_TRUE(contains(error_of([&] { open_dataset({file}); }), expected));
  DamageLog damage(/*skip=*/true);
  EXPECT_EQ(open_dataset({file}, {.damage = &damage})->size(), 1U);
  EXPECT_EQ(damage.count(), 1U);
}

TEST_F(TFRecord, ATornGzipFileIsFound) {
  const auto file = write_examples("r.tfrecord.gz", 50);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 9);
  EXPECT_TRUE(contains(error_of([&] { read_all(file); }), "the compressed data ends early"));
  EXPECT_TRUE(contains(error_of([&] { open_dataset({file}); }), "the compressed data ends early"));
}

}  // namespace
}  // namespace sullae::testing

// Parquet files that are written here, read here and by Arrow.
#include <arrow/io/file.h>
#include <arrow/table.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>

#include "data/columnar/tables.h"
#include "sullae/data.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace data;
using Kind = FeatureType::Kind;

class Samples final : public Dataset {
 public:
  explicit Samples(std::vector<Example> samples) : samples_(std::move(samples)) {}
  std::size_t size() const override { return samples_.size(); }
  Example read(std::size_t i) const override {
    if (samples_[i].features.empty()) throw DamagedRecord("is empty");
    return samples_[i];
  }
  std::string place(std::size_t i) const override { return "sample " + std::to_string(i); }

 private:
  std::vector<Example> samples_;
};

Example sample(std::int64_t number) {
  Example example;
  example.set("number", number);
  example.set("text", "수 " + std::to_string(number));
  example.set(feature::kImage, std::string("\xff\xd8\0\xff", 4));
  example.features["reals"] = std::vector<float>(static_cast<std::size_t>(number % 3), 0.5F);
  if (number % 2 == 0) example.set("even", std::int64_t{1});
  return example;
}

class ParquetWriting : public Tables {
 protected:
  std::shared_ptr<arrow::Table> read_by_arrow(const std::filesystem::path& file) {
    const auto reader = value_or_abort(
        parquet::arrow::OpenFile(value_or_abort(arrow::io::ReadableFile::Open(file.string())),
                                 arrow::default_memory_pool()));
    return value_or_abort(reader->ReadTable());
  }
};

TEST_F(ParquetWriting, ComesBackAsWritten) {
  std::vector<Example> samples;
  for (int i = 0; i < 101; ++i) samples.push_back(sample(i));
  const Samples set(samples);
  for (const auto compression :
       {ParquetWriter::Compression::snappy, ParquetWriter::Compression::zstd}) {
    ParquetWriter writer(path("w.parquet"), parquet_columns(set), compression);
    for (const auto& one : samples) writer.write(one);
    writer.close();
    const auto back = open_dataset({path("w.parquet")}, {.unlabelled = true});
    ASSERT_EQ(back->size(), samples.size());
    // It has a text, and so of the others those that are asked for.
    EXPECT_EQ(*back->read(100).bytes(feature::kText), "수 100");
    const auto table = read_by_arrow(path("w.parquet"));
    EXPECT_TRUE(table->ValidateFull().ok());
    EXPECT_EQ(table->schema()->ToString(),
              "even: int64\nimage/encoded: binary\nnumber: int64\nreals: list<element: float>\n"
              "text: string");
    const auto kept = open_dataset(
        {path("w.parquet")},
        {.unlabelled = true, .kept_columns = {"even", "image/encoded", "number", "reals"}});
    for (std::size_t i = 0; i < samples.size(); ++i) {
      Example found = kept->read(i);
      Example expected;
      for (const auto& [name, feature] : samples[i].features)
        expected.features[name == "text" ? name : "column/" + name] = feature;
      EXPECT_EQ(found, expected) << i;
    }
  }
}

TEST_F(ParquetWriting, ColumnsAreThoseOfTheFirstSamples) {
  const Samples set({sample(0), Example{}, sample(1), sample(2)});
  EXPECT_EQ(parquet_columns(set),
            (std::vector<FeatureType>{{.name = "even", .kind = Kind::integer},
                                      {.name = "image/encoded", .kind = Kind::bytes},
                                      {.name = "number", .kind = Kind::integer},
                                      {.name = "reals", .kind = Kind::real, .dimensions = 1},
                                      {.name = "text", .kind = Kind::text}}));
  Example other;
  other.set("number", std::string("seven"));
  EXPECT_EQ(error_of<InputError>([&] {
              parquet_columns(Samples({sample(0), other}));
            }),
            "feature 'number' is of whole numbers in sample 0, and of bytes in sample 1: expected "
            "one kind");
  Example bytes;
  bytes.set("text", std::string("\xff"));
  EXPECT_EQ(parquet_columns(Samples({sample(0), bytes})).back().kind, Kind::bytes);
}

TEST_F(ParquetWriting, WhatDoesNotFitIsDamagedAndTheNextIsWritten) {
  ParquetWriter writer(path("w.parquet"), parquet_columns(Samples({sample(0)})));
  writer.write(sample(0));
  const auto refusal = [&](const Example& example) {
    return error_of<InputError>([&] { writer.write(example); });
  };
  Example wrong = sample(1);
  wrong.set("extra", std::int64_t{1});
  EXPECT_EQ(refusal(wrong), "it has a feature 'extra', which others do not have");
  wrong = sample(1);
  wrong.set("number", std::string("seven"));
  EXPECT_EQ(refusal(wrong),
            "its feature 'number' is of another kind than elsewhere, expected whole numbers");
  wrong = sample(1);
  wrong.features["number"] = std::vector<std::int64_t>{1, 2};
  EXPECT_EQ(refusal(wrong), "its feature 'number' has 2 values, expected one, as elsewhere");
  wrong = sample(1);
  wrong.set("text", std::string("\xff"));
  EXPECT_EQ(refusal(wrong), "its feature 'text' is of another kind than elsewhere, expected texts");
  writer.write(sample(2));
  writer.close();
  EXPECT_EQ(read_by_arrow(path("w.parquet"))->num_rows(), 2);
}

TEST_F(ParquetWriting, OfSeveralDimensionsAreNestedLists) {
  ParquetWriter writer(path("w.parquet"), {{.name = "x", .kind = Kind::real, .dimensions = 2},
                                           {.name = "words", .kind = Kind::text, .dimensions = 2}});
  const Feature numbers = std::vector<float>{1, 2, 3, 4, 5, 6};
  const Feature words = std::vector<std::string>{"a", "b"};
  writer.write({{.values = &numbers, .sizes = {2, 3}}, {.values = &words, .sizes = {2, 1}}});
  writer.write({{.values = nullptr}, {.values = &words, .sizes = {1, 2}}});
  EXPECT_EQ(
      error_of<InputError>([&] {
        writer.write({{.values = &numbers, .sizes = {4, 2}}, {.values = &words, .sizes = {1, 2}}});
      }),
      "its feature 'x' has 2 dimensions and 6 values, expected 2 and 8");
  writer.close();
  const auto expected = make_table(
      {{"x", arrow::list(arrow::list(arrow::float32())), "[[[1, 2, 3], [4, 5, 6]], null]"},
       {"words", arrow::list(arrow::list(arrow::utf8())), R"([[["a"], ["b"]], [["a", "b"]]])"}});
  const auto table = read_by_arrow(path("w.parquet"));
  for (int column = 0; column < 2; ++column)
    EXPECT_EQ(table->column(column)->chunk(0)->ToString(),
              expected->column(column)->chunk(0)->ToString());
}

TEST_F(ParquetWriting, IsWholeOrAbsentAndAlwaysTheSame) {
  std::string bytes[2];
  for (auto& one : bytes) {
    ParquetWriter writer(path("w.parquet"), parquet_columns(Samples({sample(0)})));
    for (int i = 0; i < 9; i += 2) writer.write(sample(6 * i));
    EXPECT_FALSE(std::filesystem::exists(path("w.parquet")));
    writer.close();
    one = bytes_of(path("w.parquet"));
    std::filesystem::remove(path("w.parquet"));
  }
  EXPECT_EQ(bytes[0], bytes[1]);
  { ParquetWriter writer(path("cut.parquet"), parquet_columns(Samples({sample(0)}))); }
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  EXPECT_TRUE(
      contains(error_of<Error>([&] { ParquetWriter(path("no/w.parquet"), {}); }), "no/w.parquet"));
}

TEST_F(ParquetWriting, RowGroupsAreOfBoundedSize) {
  ParquetWriter writer(path("w.parquet"), {{.name = "x", .kind = Kind::bytes}});
  Example example;
  example.set("x", std::string(std::size_t{30} << 20, 'x'));
  for (int i = 0; i < 5; ++i) writer.write(example);
  writer.close();
  EXPECT_EQ(parquet::ParquetFileReader::OpenFile(path("w.parquet").string())
                ->metadata()
                ->num_row_groups(),
            2);
  EXPECT_EQ(open_dataset({path("w.parquet")})->read(4).bytes("x")->size(), std::size_t{30} << 20);
}

TEST_F(ParquetWriting, WithoutRowsItHasItsColumns) {
  ParquetWriter writer(path("w.parquet"), {{.name = "x", .kind = Kind::real}});
  writer.close();
  EXPECT_EQ(open_dataset({path("w.parquet")})->size(), 0U);
  EXPECT_EQ(read_by_arrow(path("w.parquet"))->schema()->ToString(), "x: float");
}

}  // namespace
}  // namespace sullae::testing

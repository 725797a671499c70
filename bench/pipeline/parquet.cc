// What it takes to read a Parquet file: by us, as samples; by Arrow, a row after the other and in
// columns.
//
//   pipeline_parquet make FILE texts|pictures TABLE    a Parquet file of a table's texts (nsmc's, say), or of as many pictures' bytes
//   pipeline_parquet samples|rows|columns FILE         {"samples_per_second": …, "megabytes_per_second": …}
#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/io/file.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#include <parquet/stream_reader.h>

#include <chrono>
#include <cstdio>
#include <random>
#include <string>

#include "sullae/data.h"

namespace {

using namespace sullae;

// Throws with what Arrow says.
template <class Value>
Value value_of(arrow::Result<Value> result) {
  if (!result.ok()) throw Error(result.status().ToString());
  return std::move(result).ValueUnsafe();
}
void check(const arrow::Status& status) {
  if (!status.ok()) throw Error(status.ToString());
}

void make(const std::string& file, const std::string& kind, const std::string& table) {
  const auto set = data::open_dataset({table});
  arrow::StringBuilder texts;
  arrow::BinaryBuilder pictures;
  arrow::Int32Builder labels;
  std::mt19937_64 random(1);
  constexpr std::size_t kPicture = 8192;
  const bool of_texts = kind == "texts";
  const std::size_t count = of_texts ? 16 * set->size() : 40'000;
  for (std::size_t i = 0; i < count; ++i) {
    const auto sample = set->read(i % set->size());
    if (of_texts) {
      check(texts.Append(*sample.bytes(data::feature::kText)));
    } else {
      std::string bytes(kPicture, '\0');
      for (std::size_t at = 0; at < kPicture; at += 8) {
        const auto number = random();
        std::memcpy(bytes.data() + at, &number, 8);
      }
      check(pictures.Append(bytes));
    }
    check(labels.Append(static_cast<int>(*sample.label())));
  }
  const auto cells = of_texts ? value_of(texts.Finish()) : value_of(pictures.Finish());
  const auto content = arrow::Table::Make(
      arrow::schema({arrow::field(of_texts ? "document" : "image/encoded", cells->type()),
                     arrow::field("label", arrow::int32())}),
      {cells, value_of(labels.Finish())});
  const auto stream = value_of(arrow::io::FileOutputStream::Open(file));
  parquet::WriterProperties::Builder properties;
  properties.compression(parquet::Compression::SNAPPY);
  // About 10 and 32 MB.
  const std::int64_t rows_a_group = of_texts ? 1 << 17 : 1 << 12;
  check(parquet::arrow::WriteTable(*content, arrow::default_memory_pool(), stream, rows_a_group,
                                   properties.build()));
  check(stream->Close());
}

struct Count {
  std::size_t samples = 0;
  std::size_t bytes = 0;
};

Count samples(const std::string& file) {
  // As of a set that is larger than what is kept, where memory is used again.
  const auto set = data::open_dataset({file}, {.decoded_bytes = std::size_t{32} << 20});
  Count count{.samples = set->size()};
  for (std::size_t i = 0; i < count.samples; ++i) {
    const auto sample = set->read(i);
    const auto* text = sample.bytes(data::feature::kText);
    if (text == nullptr) text = sample.bytes(data::feature::kImage);
    count.bytes += text->size();
  }
  return count;
}

Count rows(const std::string& file) {
  parquet::StreamReader reader(
      parquet::ParquetFileReader::Open(value_of(arrow::io::ReadableFile::Open(file))));
  Count count;
  std::optional<std::string> text;
  std::optional<std::int32_t> label;
  while (!reader.eof()) {
    reader >> text >> label >> parquet::EndRow;
    count.bytes += text->size();
    ++count.samples;
  }
  return count;
}

Count columns(const std::string& file) {
  const auto reader = value_of(parquet::arrow::OpenFile(
      value_of(arrow::io::ReadableFile::Open(file)), arrow::default_memory_pool()));
  reader->set_use_threads(false);
  Count count;
  for (int group = 0; group < reader->num_row_groups(); ++group) {
    const auto table = value_of(reader->ReadRowGroup(group));
    for (const auto& chunk : table->column(0)->chunks())
      count.bytes += static_cast<std::size_t>(
          static_cast<const arrow::BinaryArray&>(*chunk).total_values_length());
    count.samples += static_cast<std::size_t>(table->num_rows());
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() == 4 && words[0] == "make") {
      make(words[1], words[2], words[3]);
      return 0;
    }
    if (words.size() != 2) throw Error("usage: pipeline_parquet samples|rows|columns FILE");
    const auto start = std::chrono::steady_clock::now();
    const Count count =
        words[0] == "samples" ? samples(words[1]) : (words[0] == "rows" ? rows : columns)(words[1]);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("{{\"samples_per_second\": {}, \"megabytes_per_second\": {}}}\n",
               static_cast<double>(count.samples) / seconds,
               static_cast<double>(count.bytes) / 1e6 / seconds);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

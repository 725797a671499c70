// Predictions as features: numbers as int64 or float, the rest as bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "predict/row_formats.h"
#include "serve/protocol/json_tensors.h"
#include "sullae/data/parquet.h"
#include "sullae/data/tfrecord.h"

namespace sullae::predict {
namespace {

using data::ParquetColumn;
using serve::Datatype;
using serve::InferTensor;

data::Feature feature_of(const InferTensor& output, std::size_t row) {
  const std::size_t count = elements_a_row(output);
  if (output.datatype == Datatype::bytes) {
    const auto first = output.strings.begin() + static_cast<std::ptrdiff_t>(row * count);
    return std::vector<std::string>(first, first + static_cast<std::ptrdiff_t>(count));
  }
  std::vector<float> reals;
  std::vector<std::int64_t> integers;
  for (std::size_t i = row * count; i < (row + 1) * count; ++i) {
    if (output.datatype == Datatype::fp32) {
      reals.push_back(float_at(output, i));
      continue;
    }
    const auto element = serve::element_to_json(output, i);
    if (element.is_boolean()) {
      integers.push_back(element.get<bool>() ? 1 : 0);
    } else if (element.is_number_integer()) {
      integers.push_back(element.get<std::int64_t>());
    } else {
      // JSON has no number for what is not finite.
      reals.push_back(element.is_number() ? element.get<float>() : std::nanf(""));
    }
  }
  if (!integers.empty()) return integers;
  return reals;
}

class ExampleRows final : public RowFormat {
 public:
  using RowFormat::RowFormat;

  void append(const Row& row, std::string& text) const override {
    data::Example example;
    if (fields().number) example.set(kRowColumn, static_cast<std::int64_t>(row.number));
    for (const auto& column : fields().columns) {
      if (const auto* const feature = column_of(row.sample, column))
        example.features[column] = *feature;
    }
    for (const InferTensor& output : row.outputs) {
      if (fields().is_wanted(output.name))
        example.features[output.name] = feature_of(output, row.of_batch);
    }
    text += serialize(example);
  }
};

class TFRecord final : public RowWriter {
 public:
  TFRecord(const std::filesystem::path& file, std::unique_ptr<RowFormat> format)
      : format_(std::move(format)), writer_(file) {}

  void write(const Row& row) override {
    record_.clear();
    format_->append(row, record_);
    writer_.write(record_);
  }
  void close() override { writer_.close(); }

 private:
  std::unique_ptr<RowFormat> format_;
  data::TFRecordWriter writer_;
  std::string record_;
};

// Outputs of several dimensions as nested lists.
class Parquet final : public RowWriter {
 public:
  Parquet(std::filesystem::path file, RowFields fields)
      : file_(std::move(file)), fields_(std::move(fields)) {}

  void write(const Row& row) override {
    if (!writer_) writer_.emplace(file_, columns_of(row.outputs));
    const data::Feature number = std::vector<std::int64_t>{static_cast<std::int64_t>(row.number)};
    std::vector<data::ParquetWriter::Cell> cells = {{.values = &number}};
    for (const auto& column : fields_.columns)
      cells.push_back({.values = column_of(row.sample, column)});
    std::vector<data::Feature> outputs;
    outputs.reserve(row.outputs.size());  // cells refer to them
    for (const InferTensor& output : row.outputs) {
      if (!fields_.is_wanted(output.name)) continue;
      outputs.push_back(feature_of(output, row.of_batch));
      cells.push_back(
          {.values = &outputs.back(), .sizes = {output.shape.begin() + 1, output.shape.end()}});
    }
    try {
      writer_->write(cells);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: row {}: {}", file_.string(), row.number, error.what()));
    }
  }

  void close() override {
    if (!writer_) writer_.emplace(file_, columns_of({}));
    writer_->close();
  }

 private:
  // As the first row has them.
  std::vector<ParquetColumn> columns_of(const std::vector<InferTensor>& outputs) const {
    std::vector<ParquetColumn> columns = {
        {.name = kRowColumn, .kind = ParquetColumn::Kind::integer}};
    for (const auto& name : fields_.columns) {
      const auto found = std::ranges::find(fields_.column_types, name, &ParquetColumn::name);
      columns.push_back(found == fields_.column_types.end() ? ParquetColumn{.name = name} : *found);
    }
    for (const InferTensor& output : outputs) {
      if (!fields_.is_wanted(output.name)) continue;
      const auto feature = feature_of(output, 0);
      const auto kind = std::holds_alternative<std::vector<float>>(feature)
                            ? ParquetColumn::Kind::real
                        : std::holds_alternative<std::vector<std::int64_t>>(feature)
                            ? ParquetColumn::Kind::integer
                            : ParquetColumn::Kind::text;
      columns.push_back({.name = output.name, .kind = kind, .dimensions = output.shape.size() - 1});
    }
    return columns;
  }

  std::filesystem::path file_;
  RowFields fields_;
  std::optional<data::ParquetWriter> writer_;
};

}  // namespace

std::unique_ptr<RowFormat> example_rows(RowFields fields) {
  return std::make_unique<ExampleRows>(std::move(fields));
}

std::unique_ptr<RowWriter> tfrecord_file(const std::filesystem::path& file,
                                         std::unique_ptr<RowFormat> format) {
  return std::make_unique<TFRecord>(file, std::move(format));
}

std::unique_ptr<RowWriter> parquet_file(const std::filesystem::path& file, RowFields fields) {
  return std::make_unique<Parquet>(file, std::move(fields));
}

}  // namespace sullae::predict

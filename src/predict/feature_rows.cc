// Predictions as features: numbers as int64 or float, the rest as bytes.
#include <fmt/format.h>

#include <limits>
#include <optional>
#include <utility>

#include "base/half.h"
#include "predict/row_formats.h"
#include "sullae/data/parquet.h"
#include "sullae/data/tfrecord.h"
#include "sullae/error.h"

namespace sullae::predict {
namespace {

using data::FeatureType;
using serve::Datatype;
using serve::element_at;
using serve::InferTensor;

using ValueKind = FeatureType::Kind;

ValueKind kind_of(Datatype type) {
  switch (type) {
    case Datatype::bytes:
      return ValueKind::text;
    case Datatype::fp16:
    case Datatype::bf16:
    case Datatype::fp32:
      return ValueKind::real;
    case Datatype::fp64:
      return ValueKind::real64;
    default:
      return ValueKind::integer;
  }
}

std::int64_t integer_at(const InferTensor& output, std::size_t i) {
  switch (output.datatype) {
    case Datatype::boolean:
      return element_at<char>(output, i) != 0 ? 1 : 0;
    case Datatype::uint8:
      return element_at<std::uint8_t>(output, i);
    case Datatype::uint16:
      return element_at<std::uint16_t>(output, i);
    case Datatype::uint32:
      return element_at<std::uint32_t>(output, i);
    case Datatype::uint64: {
      const auto value = element_at<std::uint64_t>(output, i);
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        throw InputError(
            fmt::format("its output '{}' has {}, which is larger than an int64: "
                        "expected --format jsonl or csv",
                        output.name, value));
      return static_cast<std::int64_t>(value);
    }
    case Datatype::int8:
      return element_at<std::int8_t>(output, i);
    case Datatype::int16:
      return element_at<std::int16_t>(output, i);
    case Datatype::int32:
      return element_at<std::int32_t>(output, i);
    default:
      return element_at<std::int64_t>(output, i);
  }
}

float real_at(const InferTensor& output, std::size_t i) {
  if (output.datatype == Datatype::fp16)
    return float16_to_float(element_at<std::uint16_t>(output, i));
  if (output.datatype == Datatype::bf16)
    return bfloat16_to_float(element_at<std::uint16_t>(output, i));
  return element_at<float>(output, i);
}

template <class Read>
data::Feature values_of(const InferTensor& output, std::size_t row, const Read& read) {
  const std::size_t count = elements_a_row(output);
  data::Values<std::decay_t<decltype(read(output, 0))>> values;
  for (std::size_t i = row * count; i < (row + 1) * count; ++i) values.push_back(read(output, i));
  return values;
}

data::Feature feature_of(const InferTensor& output, std::size_t row) {
  switch (kind_of(output.datatype)) {
    case ValueKind::real:
      return values_of(output, row, &real_at);
    case ValueKind::real64:
      return values_of(output, row, &element_at<double>);
    case ValueKind::integer:
      return values_of(output, row, &integer_at);
    default:
      return values_of(output, row,
                       [](const InferTensor& texts, std::size_t i) { return texts.strings[i]; });
  }
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
    if (!writer_) open(row.outputs);
    const data::Feature number = data::Values<std::int64_t>(static_cast<std::int64_t>(row.number));
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
    if (!writer_) open(std::vector<InferTensor>());
    writer_->close();
  }

 private:
  // As the model says it, so that all files have the same columns, or as the first row has them.
  void open(const std::vector<InferTensor>& outputs) {
    std::vector<FeatureType> columns = {{.name = kRowColumn, .kind = ValueKind::integer}};
    for (const auto& name : fields_.columns) {
      const auto* const type = fields_.type_of(name);
      columns.push_back(type == nullptr ? FeatureType{.name = name} : *type);
    }
    const auto add = [&](const auto& all) {
      for (const auto& output : all) {
        if (fields_.is_wanted(output.name))
          columns.push_back({.name = output.name,
                             .kind = kind_of(output.datatype),
                             .dimensions = output.shape.size() - 1});
      }
    };
    fields_.known_outputs.empty() ? add(outputs) : add(fields_.known_outputs);
    writer_.emplace(file_, std::move(columns));
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

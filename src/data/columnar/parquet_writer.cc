#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/io/interfaces.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <parquet/arrow/writer.h>
#include <parquet/exception.h>
#include <parquet/properties.h>

#include <exception>
#include <utility>

#include "base/utf8.h"
#include "data/record/output_file.h"
#include "sullae/data/parquet.h"

namespace sullae::data {
namespace {

using Kind = FeatureType::Kind;
using BuilderPtr = std::unique_ptr<arrow::ArrayBuilder>;

std::shared_ptr<arrow::DataType> type_of(const FeatureType& column) {
  std::shared_ptr<arrow::DataType> type;
  switch (column.kind) {
    case Kind::text:
      type = arrow::utf8();
      break;
    case Kind::bytes:
      type = arrow::binary();
      break;
    case Kind::real:
      type = arrow::float32();
      break;
    case Kind::real64:
      type = arrow::float64();
      break;
    case Kind::integer:
      type = arrow::int64();
      break;
  }
  for (std::size_t i = 0; i < column.dimensions; ++i) type = arrow::list(type);
  return type;
}

// Why a file could not be written is told as it was met.
class Output final : public arrow::io::OutputStream {
 public:
  explicit Output(const std::filesystem::path& file) : file_(file) {}
  arrow::Status Write(const void* data, std::int64_t bytes) override {
    try {
      file_.write({static_cast<const char*>(data), static_cast<std::size_t>(bytes)});
    } catch (const Error&) {
      failure_ = std::current_exception();
      return arrow::Status::IOError("the file cannot be written");
    }
    position_ += bytes;
    return arrow::Status::OK();
  }
  arrow::Result<std::int64_t> Tell() const override { return position_; }
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }

  void commit() { file_.commit(); }
  std::exception_ptr failure() const { return failure_; }

 private:
  OutputFile file_;
  std::int64_t position_ = 0;
  bool closed_ = false;
  std::exception_ptr failure_;
};

void append_value(arrow::ArrayBuilder& builder, const Feature& feature, std::size_t i, Kind kind) {
  arrow::Status status;
  if (kind == Kind::real) {
    status = static_cast<arrow::FloatBuilder&>(builder).Append(std::get<Values<float>>(feature)[i]);
  } else if (kind == Kind::real64) {
    const auto* const doubles = std::get_if<Values<double>>(&feature);
    status = static_cast<arrow::DoubleBuilder&>(builder).Append(
        doubles != nullptr ? (*doubles)[i] : std::get<Values<float>>(feature)[i]);
  } else if (kind == Kind::integer) {
    status = static_cast<arrow::Int64Builder&>(builder).Append(
        std::get<Values<std::int64_t>>(feature)[i]);
  } else {
    status = static_cast<arrow::BinaryBuilder&>(builder).Append(
        std::get<Values<std::string>>(feature)[i]);
  }
  if (!status.ok()) throw Error(status.message());
}

void append(arrow::ArrayBuilder& builder, const ParquetWriter::Cell& cell,
            const FeatureType& column, std::size_t dimension, std::size_t& next) {
  if (dimension == column.dimensions) {
    append_value(builder, *cell.values, next++, column.kind);
    return;
  }
  auto& list = static_cast<arrow::ListBuilder&>(builder);
  if (const auto status = list.Append(); !status.ok()) throw Error(status.message());
  for (std::size_t i = 0; i < cell.sizes[dimension]; ++i)
    append(*list.value_builder(), cell, column, dimension + 1, next);
}

std::size_t count_of(const Feature& feature) {
  return std::visit([](const auto& values) { return values.size(); }, feature);
}

std::size_t bytes_of(const Feature& feature) {
  const auto* const texts = std::get_if<Values<std::string>>(&feature);
  if (texts == nullptr) return 8 * count_of(feature);
  std::size_t bytes = 0;
  for (const auto& text : *texts) bytes += text.size() + 4;
  return bytes;
}

bool is_of_kind(const Feature& feature, Kind kind) {
  if (kind == Kind::real) return std::holds_alternative<Values<float>>(feature);
  if (kind == Kind::real64)
    return std::holds_alternative<Values<double>>(feature) ||
           std::holds_alternative<Values<float>>(feature);
  if (kind == Kind::integer) return std::holds_alternative<Values<std::int64_t>>(feature);
  const auto* const texts = std::get_if<Values<std::string>>(&feature);
  if (texts == nullptr) return false;
  for (const auto& text : *texts) {
    if (kind == Kind::text && find_invalid_utf8(text) != std::string::npos) return false;
  }
  return true;
}

const char* word_of(Kind kind) {
  constexpr const char* kNames[] = {"texts", "bytes", "numbers", "doubles", "whole numbers"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

class ParquetWriter::Impl {
 public:
  Impl(const std::filesystem::path& file, std::vector<FeatureType> columns, Compression compression)
      : name_(file.string()),
        columns_(std::move(columns)),
        output_(std::make_shared<Output>(file)) {
    std::vector<std::shared_ptr<arrow::Field>> fields;
    for (const auto& column : columns_) {
      fields.push_back(arrow::field(column.name, type_of(column)));
      checked([&] {
        auto builder = arrow::MakeBuilder(fields.back()->type());
        if (!builder.ok()) return builder.status();
        builders_.push_back(std::move(builder).ValueUnsafe());
        return arrow::Status::OK();
      });
    }
    schema_ = arrow::schema(std::move(fields));
    parquet::WriterProperties::Builder properties;
    properties.enable_page_checksum();
    properties.compression(compression == Compression::zstd ? arrow::Compression::ZSTD
                                                            : arrow::Compression::SNAPPY);
    checked([&] {
      auto writer = parquet::arrow::FileWriter::Open(*schema_, arrow::default_memory_pool(),
                                                     output_, properties.build());
      if (!writer.ok()) return writer.status();
      writer_ = std::move(writer).ValueUnsafe();
      return arrow::Status::OK();
    });
  }

  const std::vector<FeatureType>& columns() const { return columns_; }

  void write(const std::vector<Cell>& cells) {
    for (std::size_t i = 0; i < columns_.size(); ++i) check(columns_[i], cells[i]);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (cells[i].values == nullptr) {
        checked([&] { return builders_[i]->AppendNull(); });
        continue;
      }
      Cell cell = cells[i];
      if (cell.sizes.empty()) cell.sizes = {count_of(*cell.values)};
      std::size_t next = 0;
      append(*builders_[i], cell, columns_[i], 0, next);
      bytes_ += bytes_of(*cell.values);
    }
    ++rows_;
    constexpr std::size_t kRowGroup = std::size_t{64} << 20;
    if (bytes_ >= kRowGroup) flush();
  }

  void close() {
    flush();
    checked([&] { return writer_->Close(); });
    output_->commit();
  }

 private:
  static void check(const FeatureType& column, const Cell& cell) {
    if (cell.values == nullptr) return;
    if (!is_of_kind(*cell.values, column.kind))
      throw InputError(
          fmt::format("its feature '{}' is of another kind than elsewhere, expected {}",
                      column.name, word_of(column.kind)));
    std::size_t count = 1;
    for (const std::size_t size : cell.sizes) count *= size;
    const std::size_t values = count_of(*cell.values);
    if (column.dimensions == 0 && values != 1)
      throw InputError(fmt::format("its feature '{}' has {} values, expected one, as elsewhere",
                                   column.name, values));
    if (column.dimensions > 1 && (cell.sizes.size() != column.dimensions || count != values))
      throw InputError(
          fmt::format("its feature '{}' has {} dimensions and {} values, expected {} and {}",
                      column.name, cell.sizes.size(), values, column.dimensions, count));
  }

  void flush() {
    if (rows_ == 0) return;
    std::vector<std::shared_ptr<arrow::Array>> arrays(builders_.size());
    for (std::size_t i = 0; i < builders_.size(); ++i)
      checked([&] { return builders_[i]->Finish(&arrays[i]); });
    const auto table = arrow::Table::Make(schema_, arrays, rows_);
    checked([&] { return writer_->WriteTable(*table, rows_); });
    rows_ = 0;
    bytes_ = 0;
  }

  // What cannot be written is said by the file.
  template <class Work>
  void checked(const Work& work) {
    std::string problem;
    try {
      const arrow::Status status = work();
      if (status.ok()) return;
      problem = status.message();
    } catch (const parquet::ParquetException& error) {
      problem = error.what();
    }
    if (output_->failure()) std::rethrow_exception(output_->failure());
    throw Error(fmt::format("{}: cannot be written: {}", name_, problem));
  }

  std::string name_;
  std::vector<FeatureType> columns_;
  std::shared_ptr<Output> output_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<BuilderPtr> builders_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
  std::int64_t rows_ = 0;
  std::size_t bytes_ = 0;
};

ParquetWriter::ParquetWriter(const std::filesystem::path& file, std::vector<FeatureType> columns,
                             Compression compression)
    : impl_(std::make_unique<Impl>(file, std::move(columns), compression)) {}
ParquetWriter::~ParquetWriter() = default;

void ParquetWriter::write(const Example& example) {
  std::vector<Cell> cells;
  std::size_t found = 0;
  for (const auto& column : impl_->columns()) {
    const auto feature = example.features.find(column.name);
    const bool has_it = feature != example.features.end();
    cells.push_back({.values = has_it ? &feature->second : nullptr});
    if (has_it) ++found;
  }
  if (found < example.features.size()) {
    for (const auto& [name, feature] : example.features) {
      if (std::ranges::find(impl_->columns(), name, &FeatureType::name) == impl_->columns().end())
        throw InputError(fmt::format("it has a feature '{}', which others do not have", name));
    }
  }
  impl_->write(cells);
}

void ParquetWriter::write(const std::vector<Cell>& cells) { impl_->write(cells); }
void ParquetWriter::close() { impl_->close(); }

}  // namespace sullae::data

// Predictions as lines of text.
#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "base/dump_json.h"
#include "data/table/typed_table.h"
#include "predict/row_formats.h"
#include "serve/protocol/json_tensors.h"
#include "storage/storage.h"

namespace sullae::predict {
namespace {

using nlohmann::json;
using serve::Datatype;
using serve::InferTensor;

// Strings with what is no UTF-8 as U+FFFD.
void append(std::string& text, const std::string& value) { text += dump_json(json(value)); }
template <std::floating_point Real>
void append(std::string& text, Real value) {
  if (!std::isfinite(value)) {
    text += "null";
    return;
  }
  const std::size_t begin = text.size();
  fmt::format_to(std::back_inserter(text), "{}", value);
  // A number with a point, whatever its value.
  if (text.find_first_of(".e", begin) == std::string::npos) text += ".0";
}
void append(std::string& text, std::int64_t value) {
  fmt::format_to(std::back_inserter(text), "{}", value);
}

void append(std::string& text, const data::Feature& feature, bool is_list) {
  std::visit(
      [&](const auto& values) {
        if (values.size() == 1 && !is_list) return append(text, values.front());
        text += '[';
        for (const auto& value : values) {
          if (text.back() != '[') text += ',';
          append(text, value);
        }
        text += ']';
      },
      feature);
}

void append_element(std::string& text, const InferTensor& output, std::size_t index) {
  if (output.datatype == Datatype::bytes) return append(text, output.strings[index]);
  if (output.datatype == Datatype::fp32) return append(text, element_at<float>(output, index));
  text += serve::element_to_json(output, index).dump();
}

// As nested lists of the sizes shape[dimension …].
void append_nested(std::string& text, const InferTensor& output, std::size_t dimension,
                   std::size_t& next) {
  if (dimension == output.shape.size()) return append_element(text, output, next++);
  text += '[';
  for (std::int64_t i = 0; i < output.shape[dimension]; ++i) {
    if (i > 0) text += ',';
    append_nested(text, output, dimension + 1, next);
  }
  text += ']';
}

// With commas between its fields.
class Fields {
 public:
  explicit Fields(std::string& text) : text_(text) {}
  std::string& next() {
    if (std::exchange(has_one_, true)) text_ += ',';
    return text_;
  }

 private:
  std::string& text_;
  bool has_one_ = false;
};

class JsonRows final : public RowFormat {
 public:
  using RowFormat::RowFormat;

  void append(const Row& row, std::string& text) const override {
    text += '{';
    Fields all(text);
    if (fields().number)
      fmt::format_to(std::back_inserter(all.next()), "\"{}\":{}", kRowColumn, row.number);
    for (const auto& column : fields().columns) {
      sullae::predict::append(all.next(), column);
      text += ':';
      if (const auto* const feature = column_of(row.sample, column)) {
        const auto* const type = fields().type_of(column);
        sullae::predict::append(text, *feature, type != nullptr && type->dimensions > 0);
      } else {
        text += "null";
      }
    }
    for (const InferTensor& output : row.outputs) {
      if (!fields().is_wanted(output.name)) continue;
      sullae::predict::append(all.next(), output.name);
      text += ':';
      std::size_t first = row.of_batch * elements_a_row(output);
      append_nested(text, output, 1, first);
    }
    text += '}';
  }
};

std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string text = "\"";
  for (const char c : field) {
    if (c == '"') text += '"';
    text += c;
  }
  return text + '"';
}

class CsvRows final : public RowFormat {
 public:
  using RowFormat::RowFormat;

  void append_names(const std::vector<std::string>& outputs, std::string& text) const override {
    Fields all(text);
    if (fields().number) all.next() += kRowColumn;
    for (const auto& column : fields().columns) all.next() += quoted(column);
    for (const auto& output : outputs) {
      if (fields().is_wanted(output)) all.next() += quoted(output);
    }
  }

  void append(const Row& row, std::string& text) const override {
    Fields all(text);
    if (fields().number) all.next() += std::to_string(row.number);
    for (const auto& column : fields().columns) {
      all.next();
      const auto* const feature = column_of(row.sample, column);
      if (feature != nullptr) text += quoted(data::text_of(*feature));
    }
    for (const InferTensor& output : row.outputs) {
      if (fields().is_wanted(output.name)) all.next() += quoted(field_of(output, row.of_batch));
    }
  }

 private:
  template <class Real>
  static void append_real(std::string& field, Real value) {
    // A NaN's sign says nothing.
    if (std::isnan(value)) {
      field += "nan";
    } else {
      fmt::format_to(std::back_inserter(field), "{}", value);
    }
  }

  static std::string field_of(const InferTensor& output, std::size_t row) {
    std::string field;
    const std::size_t count = elements_a_row(output);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t index = row * count + i;
      if (i > 0) field += ' ';
      if (output.datatype == Datatype::bytes) {
        field += output.strings[index];
      } else if (output.datatype == Datatype::fp32) {
        append_real(field, element_at<float>(output, index));
      } else if (output.datatype == Datatype::fp64) {
        append_real(field, element_at<double>(output, index));
      } else {
        append_element(field, output, index);
      }
    }
    return field;
  }
};

template <class Outputs>
std::vector<std::string> names_of(const Outputs& outputs) {
  std::vector<std::string> names;
  for (const auto& output : outputs) names.push_back(output.name);
  return names;
}

// A row a line.
class Lines final : public RowWriter {
 public:
  Lines(const std::filesystem::path& file, std::unique_ptr<RowFormat> format)
      : format_(std::move(format)), file_(file) {}

  void write(const Row& row) override {
    if (!has_names_) append_names(names_of(row.outputs));
    format_->append(row, text_);
    text_ += '\n';
    constexpr std::size_t kEnough = std::size_t{1} << 20;
    if (text_.size() >= kEnough) flush();
  }
  void close() override {
    // Of a part without a row.
    if (!has_names_) append_names(names_of(format_->fields().known_outputs));
    flush();
    file_.commit();
  }

 private:
  void append_names(const std::vector<std::string>& outputs) {
    has_names_ = true;
    format_->append_names(outputs, text_);
    if (!text_.empty()) text_ += '\n';
  }
  void flush() {
    file_.write(text_.data(), text_.size());
    text_.clear();
  }

  std::unique_ptr<RowFormat> format_;
  storage::NewFile file_;
  std::string text_;
  bool has_names_ = false;
};

}  // namespace

std::unique_ptr<RowFormat> json_rows(RowFields fields) {
  return std::make_unique<JsonRows>(std::move(fields));
}

std::unique_ptr<RowFormat> csv_rows(RowFields fields) {
  return std::make_unique<CsvRows>(std::move(fields));
}

std::unique_ptr<RowWriter> lines_file(const std::filesystem::path& file,
                                      std::unique_ptr<RowFormat> format) {
  return std::make_unique<Lines>(file, std::move(format));
}

}  // namespace sullae::predict

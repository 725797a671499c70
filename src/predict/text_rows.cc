// Predictions as lines of text.
#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

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
void append(std::string& text, const std::string& value) {
  text += json(value).dump(-1, ' ', false, json::error_handler_t::replace);
}
void append(std::string& text, float value) {
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

void append(std::string& text, const data::Feature& feature) {
  std::visit(
      [&](const auto& values) {
        if (values.size() == 1) return append(text, values.front());
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
  if (output.datatype == Datatype::fp32) {
    return append(text, float_at(output, index));
  }
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

class TextWriter : public RowWriter {
 public:
  TextWriter(const std::filesystem::path& file, RowFields fields)
      : fields_(std::move(fields)), file_(file) {}

  void write(const Row& row) final {
    append_row(row, text_);
    constexpr std::size_t kEnough = std::size_t{1} << 20;
    if (text_.size() >= kEnough) flush();
  }
  void close() final {
    append_end(text_);
    flush();
    file_.commit();
  }

 protected:
  const RowFields& fields() const { return fields_; }

 private:
  virtual void append_row(const Row& row, std::string& text) = 0;
  virtual void append_end(std::string& /*text*/) {}
  void flush() {
    file_.write(text_.data(), text_.size());
    text_.clear();
  }

  RowFields fields_;
  storage::NewFile file_;
  std::string text_;
};

class JsonLines final : public TextWriter {
 public:
  using TextWriter::TextWriter;

 private:
  void append_row(const Row& row, std::string& text) override {
    fmt::format_to(std::back_inserter(text), "{{\"{}\":{}", kRowColumn, row.number);
    for (const auto& column : fields().columns) {
      begin_field(column, text);
      if (const auto* const feature = column_of(row.sample, column)) {
        append(text, *feature);
      } else {
        text += "null";
      }
    }
    for (const InferTensor& output : row.outputs) {
      if (!fields().is_wanted(output.name)) continue;
      begin_field(output.name, text);
      std::size_t first = row.of_batch * elements_a_row(output);
      append_nested(text, output, 1, first);
    }
    text += "}\n";
  }

  static void begin_field(const std::string& name, std::string& text) {
    text += ',';
    append(text, name);
    text += ':';
  }
};

// RFC 4180, with a line of names; several numbers of one row are one field, with spaces between them.
class Csv final : public TextWriter {
 public:
  using TextWriter::TextWriter;

 private:
  void append_row(const Row& row, std::string& text) override {
    if (!has_header_) {
      std::vector<std::string> names;
      for (const InferTensor& output : row.outputs) names.push_back(output.name);
      append_header(names, text);
    }
    text += std::to_string(row.number);
    for (const auto& column : fields().columns) {
      text += ',';
      const auto* const feature = column_of(row.sample, column);
      if (feature == nullptr) continue;
      text += quoted(data::text_of(*feature));
    }
    for (const InferTensor& output : row.outputs) {
      if (!fields().is_wanted(output.name)) continue;
      std::string field;
      const std::size_t count = elements_a_row(output);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t index = row.of_batch * count + i;
        if (i > 0) field += ' ';
        if (output.datatype == Datatype::bytes) {
          field += output.strings[index];
        } else if (output.datatype == Datatype::fp32) {
          fmt::format_to(std::back_inserter(field), "{}", float_at(output, index));
        } else {
          append_element(field, output, index);
        }
      }
      text += ',';
      text += quoted(field);
    }
    text += '\n';
  }

  // Of a part without a row.
  void append_end(std::string& text) override {
    if (!has_header_) append_header(fields().known_outputs, text);
  }

  static std::string quoted(const std::string& field) {
    if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
    std::string text = "\"";
    for (const char c : field) {
      if (c == '"') text += '"';
      text += c;
    }
    return text + '"';
  }
  void append_header(const std::vector<std::string>& outputs, std::string& text) {
    has_header_ = true;
    text += kRowColumn;
    for (const auto& column : fields().columns) text += ',' + quoted(column);
    for (const auto& output : outputs) {
      if (fields().is_wanted(output)) text += ',' + quoted(output);
    }
    text += '\n';
  }

  bool has_header_ = false;
};

}  // namespace

std::unique_ptr<RowWriter> json_lines(const std::filesystem::path& file, RowFields fields) {
  return std::make_unique<JsonLines>(file, std::move(fields));
}

std::unique_ptr<RowWriter> csv(const std::filesystem::path& file, RowFields fields) {
  return std::make_unique<Csv>(file, std::move(fields));
}

}  // namespace sullae::predict

#include "predict/row_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "base/file.h"
#include "serve/protocol/json_tensors.h"
#include "sullae/data/tfrecord.h"
#include "sullae/error.h"

namespace sullae::predict {
namespace {

using nlohmann::json;
using serve::Datatype;
using serve::InferTensor;

// How many elements of an output a row has.
std::size_t elements_a_row(const InferTensor& output) {
  std::size_t count = 1;
  for (std::size_t i = 1; i < output.shape.size(); ++i)
    count *= static_cast<std::size_t>(output.shape[i]);
  return count;
}

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

float float_at(const InferTensor& output, std::size_t index) {
  float value = 0;
  std::memcpy(&value, output.data.data() + index * sizeof value, sizeof value);
  return value;
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

class Writer : public RowWriter {
 public:
  explicit Writer(RowFields fields) : fields_(std::move(fields)) {}

 protected:
  const std::vector<std::string>& columns() const { return fields_.columns; }
  bool is_wanted(const std::string& output) const {
    return fields_.outputs.empty() ||
           std::ranges::find(fields_.outputs, output) != fields_.outputs.end();
  }
  const std::vector<std::string>& known_outputs() const { return fields_.known_outputs; }

 private:
  RowFields fields_;
};

class TextWriter : public Writer {
 public:
  TextWriter(const std::filesystem::path& file, RowFields fields)
      : Writer(std::move(fields)), file_(file) {}

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

 private:
  virtual void append_row(const Row& row, std::string& text) = 0;
  virtual void append_end(std::string& /*text*/) {}
  void flush() {
    file_.write(text_.data(), text_.size());
    text_.clear();
  }

  AtomicFile file_;
  std::string text_;
};

class JsonLines final : public TextWriter {
 public:
  using TextWriter::TextWriter;

 private:
  void append_row(const Row& row, std::string& text) override {
    fmt::format_to(std::back_inserter(text), "{{\"{}\":{}", kRowColumn, row.number);
    for (const auto& column : columns()) {
      begin_field(column, text);
      if (const auto* const feature = column_of(row.sample, column)) {
        append(text, *feature);
      } else {
        text += "null";
      }
    }
    for (const InferTensor& output : row.outputs) {
      if (!is_wanted(output.name)) continue;
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
    for (const auto& column : columns()) {
      text += ',';
      const auto* const feature = column_of(row.sample, column);
      if (feature == nullptr) continue;
      std::string field;
      std::visit(
          [&](const auto& values) {
            for (const auto& value : values)
              field += fmt::format("{}{}", field.empty() ? "" : " ", value);
          },
          *feature);
      text += quoted(field);
    }
    for (const InferTensor& output : row.outputs) {
      if (!is_wanted(output.name)) continue;
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
    if (!has_header_) append_header(known_outputs(), text);
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
    for (const auto& column : columns()) text += ',' + quoted(column);
    for (const auto& output : outputs) {
      if (is_wanted(output)) text += ',' + quoted(output);
    }
    text += '\n';
  }

  bool has_header_ = false;
};

// tf.train.Example: numbers as int64 or float, the rest as bytes.
class TFRecord final : public Writer {
 public:
  TFRecord(const std::filesystem::path& file, RowFields fields)
      : Writer(std::move(fields)), writer_(file) {}

  void write(const Row& row) override {
    data::Example example;
    example.set(kRowColumn, static_cast<std::int64_t>(row.number));
    for (const auto& column : columns()) {
      if (const auto* const feature = column_of(row.sample, column))
        example.features[column] = *feature;
    }
    for (const InferTensor& output : row.outputs) {
      if (is_wanted(output.name)) example.features[output.name] = feature_of(output, row.of_batch);
    }
    writer_.write(serialize(example));
  }
  void close() override { writer_.close(); }

 private:
  static data::Feature feature_of(const InferTensor& output, std::size_t row) {
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
  data::TFRecordWriter writer_;
};

}  // namespace

const data::Feature* column_of(const data::Example& sample, const std::string& name) {
  auto found = sample.features.find(std::string(data::feature::kColumn) + name);
  if (found == sample.features.end()) found = sample.features.find(name);
  return found == sample.features.end() ? nullptr : &found->second;
}

std::vector<std::string> formats() { return {"jsonl", "csv", "tfrecord"}; }

std::unique_ptr<RowWriter> make_row_writer(const std::string& format,
                                           const std::filesystem::path& file, RowFields fields) {
  if (format == "jsonl") return std::make_unique<JsonLines>(file, std::move(fields));
  if (format == "csv") return std::make_unique<Csv>(file, std::move(fields));
  if (format == "tfrecord") return std::make_unique<TFRecord>(file, std::move(fields));
  throw InputError(fmt::format("--format {}: expected jsonl, csv or tfrecord", format));
}

}  // namespace sullae::predict

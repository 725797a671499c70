#include "predict/row_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "predict/row_formats.h"
#include "sullae/error.h"

namespace sullae::predict {
namespace {

using MakeRows = std::unique_ptr<RowFormat> (*)(RowFields fields);
using MakeFile = std::unique_ptr<RowWriter> (*)(const std::filesystem::path& file,
                                                std::unique_ptr<RowFormat> rows);

struct Kind {
  const char* name;
  MakeRows rows;  // null where a row alone is nothing
  MakeFile file;
};
constexpr std::array<Kind, 4> kKinds = {{{"jsonl", &json_rows, &lines_file},
                                         {"csv", &csv_rows, &lines_file},
                                         {"tfrecord", &example_rows, &tfrecord_file},
                                         {"parquet", nullptr, nullptr}}};

const Kind& find_kind(const std::string& format, const std::vector<std::string>& names) {
  const auto found = std::ranges::find(kKinds, format, &Kind::name);
  if (found == kKinds.end() || std::ranges::find(names, format) == names.end())
    throw InputError(
        fmt::format("--format {}: expected one of {}", format, fmt::join(names, ", ")));
  return *found;
}

}  // namespace

const data::Feature* column_of(const data::Example& sample, const std::string& name) {
  auto found = sample.features.find(std::string(data::feature::kColumn) + name);
  if (found == sample.features.end()) found = sample.features.find(name);
  return found == sample.features.end() ? nullptr : &found->second;
}

bool RowFields::is_wanted(const std::string& output) const {
  return outputs.empty() || std::ranges::find(outputs, output) != outputs.end();
}

const data::FeatureType* RowFields::type_of(const std::string& column) const {
  const auto found = std::ranges::find(column_types, column, &data::FeatureType::name);
  return found == column_types.end() ? nullptr : &*found;
}

std::vector<std::string> formats() {
  std::vector<std::string> names;
  for (const auto& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

std::vector<std::string> message_formats() {
  std::vector<std::string> names;
  for (const auto& kind : kKinds) {
    if (kind.rows != nullptr) names.emplace_back(kind.name);
  }
  return names;
}

std::unique_ptr<RowFormat> make_row_format(const std::string& format, RowFields fields) {
  return find_kind(format, message_formats()).rows(std::move(fields));
}

std::unique_ptr<RowWriter> make_row_writer(const std::string& format,
                                           const std::filesystem::path& file, RowFields fields) {
  const Kind& kind = find_kind(format, formats());
  if (kind.rows == nullptr) return parquet_file(file, std::move(fields));
  return kind.file(file, kind.rows(std::move(fields)));
}

}  // namespace sullae::predict

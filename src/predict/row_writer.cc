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

struct RowFormat {
  const char* name;
  std::unique_ptr<RowWriter> (*make)(const std::filesystem::path& file, RowFields fields);
};
constexpr std::array<RowFormat, 4> kFormats = {
    {{"jsonl", &json_lines}, {"csv", &csv}, {"tfrecord", &tfrecord}, {"parquet", &parquet}}};

}  // namespace

const data::Feature* column_of(const data::Example& sample, const std::string& name) {
  auto found = sample.features.find(std::string(data::feature::kColumn) + name);
  if (found == sample.features.end()) found = sample.features.find(name);
  return found == sample.features.end() ? nullptr : &found->second;
}

bool RowFields::is_wanted(const std::string& output) const {
  return outputs.empty() || std::ranges::find(outputs, output) != outputs.end();
}

std::vector<std::string> formats() {
  std::vector<std::string> names;
  for (const auto& format : kFormats) names.emplace_back(format.name);
  return names;
}

std::unique_ptr<RowWriter> make_row_writer(const std::string& format,
                                           const std::filesystem::path& file, RowFields fields) {
  const auto found = std::ranges::find(kFormats, format, &RowFormat::name);
  if (found == kFormats.end())
    throw InputError(
        fmt::format("--format {}: expected one of {}", format, fmt::join(formats(), ", ")));
  return found->make(file, std::move(fields));
}

}  // namespace sullae::predict

#include "data/format/records_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "data/decorators.h"
#include "data/format/format.h"
#include "data/table/labels.h"

namespace sullae::data {
namespace {

bool is_example(const std::string& record) {
  // A message of protobuf that begins with its only field.
  constexpr char kFirst = '\n';
  if (!record.starts_with(kFirst)) return false;
  try {
    return !parse_example(record).features.empty();
  } catch (const InputError&) {
    return false;
  }
}

std::string format_of(const Records& records, const std::string& given) {
  if (given != "auto") return given;
  const std::string first = records.read(0);
  if (const auto at = first.find_first_not_of(" \t\r\n"); at != first.npos && first[at] == '{')
    return "jsonl";
  if (is_example(first)) return "tfrecord";
  return first.find('\t') != std::string::npos ? "tsv" : "csv";
}

}  // namespace

std::vector<std::string> record_formats() {
  std::vector<std::string> names;
  for (const Format& format : formats()) {
    if (format.open_records != nullptr) names.push_back(format.name);
  }
  std::ranges::sort(names);
  return names;
}

DatasetPtr open_records(std::shared_ptr<const Records> records, const DatasetOptions& options) {
  if (records->size() == 0) throw InputError(fmt::format("{}: holds no samples", records->name()));
  const std::string name = format_of(*records, options.format);
  const auto format = std::ranges::find(formats(), name, &Format::name);
  if (format == formats().end() || format->open_records == nullptr)
    throw InputError(fmt::format("{}: format '{}': expected auto or one of {}", records->name(),
                                 name, fmt::join(record_formats(), ", ")));
  auto set = format->open_records(records, options);
  auto classes = options.classes.empty() ? set->classes() : options.classes;
  if (format->is_table && !options.unlabelled && options.classes.empty())
    check_labels(records->name(), classes, set->size());
  return number_classes(std::move(set), std::move(classes));
}

}  // namespace sullae::data

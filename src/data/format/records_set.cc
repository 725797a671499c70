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

const Format& find_format(const std::string& name) {
  const auto found = std::ranges::find(formats(), name, &Format::name);
  if (found == formats().end() || found->open_records == nullptr)
    throw InputError(fmt::format("format '{}' of messages: expected auto or one of {}", name,
                                 fmt::join(record_formats(), ", ")));
  return *found;
}

bool is_object(const std::string& record) {
  const auto at = record.find_first_not_of(" \t\r\n");
  return at != std::string::npos && record[at] == '{';
}

}  // namespace

std::string recognise_records(const Records& records) {
  constexpr std::size_t kLookedAt = 100;
  bool has_tab = false;
  for (std::size_t i = 0; i < std::min(kLookedAt, records.size()); ++i) {
    const std::string record = records.read(i);
    if (is_object(record)) return "jsonl";
    if (is_example(record)) return "tfrecord";
    has_tab = has_tab || record.find('\t') != std::string::npos;
  }
  return has_tab ? "tsv" : "csv";
}

std::vector<std::string> record_formats() {
  std::vector<std::string> names;
  for (const Format& format : formats()) {
    if (format.open_records != nullptr) names.push_back(format.name);
  }
  std::ranges::sort(names);
  return names;
}

std::string shape_of_record(const std::string& record, const DatasetOptions& options) {
  return find_format(options.format).shape(record, options);
}

DatasetPtr open_records(std::shared_ptr<const Records> records, const DatasetOptions& options) {
  if (records->size() == 0) throw InputError(fmt::format("{}: holds no samples", records->name()));
  const std::string name = options.format == "auto" ? recognise_records(*records) : options.format;
  const Format& format = find_format(name);
  auto set = format.open_records(records, options);
  auto classes = options.classes.empty() ? set->classes() : options.classes;
  if (format.is_table && !options.unlabelled && options.classes.empty())
    check_labels(records->name(), classes, set->size());
  return classes.empty() ? set : number_classes(std::move(set), std::move(classes));
}

}  // namespace sullae::data

#include "data/table/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/ascii.h"
#include "base/number.h"

namespace sullae::data {
namespace {

constexpr std::array<std::string_view, 11> kLabelNames = {
    "label",      "labels",   "class", "category", "target", "sentiment",
    "sentiments", "polarity", "stars", "rating",   "intent"};
constexpr std::array<std::string_view, 14> kTextNames = {
    "text", "document", "title",    "description", "sentence", "review", "content",
    "body", "comment",  "comments", "message",     "tweet",    "phrase", "reviews"};

template <class Names>
bool is_one_of(const std::string& name, const Names& names) {
  return std::ranges::find(names, to_lower(name)) != names.end();
}

std::vector<std::string> split_names(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const auto comma = list.find(',');
    names.emplace_back(list.substr(0, comma));
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
  }
  return names;
}

bool names_columns(const std::vector<std::string>& row, const DatasetOptions& options) {
  const auto asked = split_names(options.text_columns + ',' + options.label_column);
  return std::ranges::any_of(row, [&](const std::string& field) {
    return is_label_name(field) || is_text_name(field) ||
           (!field.empty() && std::ranges::find(asked, field) != asked.end() &&
            !std::ranges::all_of(field, [](unsigned char c) { return std::isdigit(c); }));
  });
}

// What a row is found by, and no label.
bool identifies(const std::string& name) {
  constexpr std::array<std::string_view, 11> kNames = {
      "", "id", "idx", "index", "uuid", "guid", "date", "time", "url", "link", "timestamp"};
  const auto lower = to_lower(name);
  return is_one_of(name, kNames) || lower.ends_with("_id") || lower.starts_with("unnamed:");
}

// The label where its name says nothing, and one column alone is no text by its name.
std::size_t only_other(const std::vector<std::string>& first_row, const DatasetOptions& options,
                       const std::string& where) {
  const auto texts = split_names(options.text_columns);
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < first_row.size(); ++i) {
    if (!is_text_name(first_row[i]) && !identifies(first_row[i]) &&
        std::ranges::find(texts, first_row[i]) == texts.end())
      others.push_back(i);
  }
  if (others.size() == 1) return others.front();
  throw InputError(
      fmt::format("{}: has columns {}: none is a label by its name; say which with "
                  "--label-column, or, to sullae data, --unlabelled",
                  where, fmt::join(first_row, ", ")));
}

}  // namespace

bool is_label_name(const std::string& name) { return is_one_of(name, kLabelNames); }
bool is_text_name(const std::string& name) { return is_one_of(name, kTextNames); }

std::size_t find_column(const std::string& name, const std::vector<std::string>& first_row,
                        bool header, const std::string& where) {
  // A column may be called by a number, as pandas calls those that have no name.
  const auto found = std::ranges::find(first_row, name);
  if (header && found != first_row.end())
    return static_cast<std::size_t>(found - first_row.begin());
  const auto number = number_in<std::size_t>(name).value_or(0);
  if (number >= 1 && number <= first_row.size()) return number - 1;
  throw InputError(fmt::format(
      "{}: has no column '{}', expected {}1 to {}", where, name,
      header ? fmt::format("one of {}, or ", fmt::join(first_row, ", ")) : "", first_row.size()));
}

Columns choose_columns(const std::vector<std::string>& first_row, const DatasetOptions& options,
                       bool label_first, const std::string& where) {
  Columns columns{.header = options.header == "yes" ||
                            (options.header == "auto" && names_columns(first_row, options)),
                  .count = first_row.size()};
  if (first_row.size() < 2 && !options.unlabelled)
    throw InputError(fmt::format("{}: has one column, expected a label and a text", where));
  if (!options.label_column.empty()) {
    columns.label = find_column(options.label_column, first_row, columns.header, where);
  } else if (columns.header) {
    const auto found = std::ranges::find_if(first_row, is_label_name);
    if (found != first_row.end()) {
      columns.label = static_cast<std::size_t>(found - first_row.begin());
    } else if (!options.unlabelled) {
      columns.label = only_other(first_row, options, where);
    }
  } else if (!options.unlabelled) {
    columns.label = label_first ? 0 : first_row.size() - 1;
  } else if (first_row.size() > 1 && options.text_columns.empty()) {
    throw InputError(
        fmt::format("{}: has {} columns without names: say which are the text with --text-columns, "
                    "by their numbers from 1",
                    where, first_row.size()));
  }
  for (const auto& name : options.kept_columns)
    columns.kept.push_back(find_column(name, first_row, columns.header, where));
  for (const auto& name : split_names(options.text_columns))
    columns.texts.push_back(find_column(name, first_row, columns.header, where));
  for (std::size_t i = 0; columns.header && options.text_columns.empty() && i < first_row.size();
       ++i) {
    if (i != columns.label && is_text_name(first_row[i])) columns.texts.push_back(i);
  }
  if (columns.texts.empty()) {
    for (std::size_t i = 0; i < first_row.size(); ++i) {
      const bool is_kept =
          options.unlabelled && std::ranges::find(columns.kept, i) != columns.kept.end();
      if (i != columns.label && !is_kept) columns.texts.push_back(i);
    }
  }
  return columns;
}

}  // namespace sullae::data

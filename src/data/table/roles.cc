#include "data/table/roles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/log.h"
#include "base/split.h"
#include "data/table/columns.h"

namespace sullae::data {
namespace {

constexpr std::array<std::string_view, 8> kImageNames = {
    "image/encoded", "image.bytes", "img.bytes", "image", "img", "jpeg", "jpg", "content"};

bool can_be_label(const TypedColumn& column) {
  return (column.is_string || column.kind == FeatureKind::integer) && !column.is_list;
}

std::optional<std::size_t> find_named(const std::vector<TypedColumn>& columns,
                                      std::string_view name) {
  const auto found = std::ranges::find(columns, name, &TypedColumn::name);
  if (found == columns.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns.begin());
}

std::vector<std::string> names_of(const std::vector<TypedColumn>& columns) {
  std::vector<std::string> names;
  for (const auto& column : columns) names.push_back(column.name);
  return names;
}

// Without the columns that these samples happen not to have; but for texts where none is there,
// which whoever looks for them says.
DatasetOptions those_there(DatasetOptions options, const std::vector<TypedColumn>& columns) {
  const auto is_missing = [&](const std::string& name) {
    return !find_named(columns, name);
  };
  std::erase_if(options.kept_columns, is_missing);
  auto texts = split(options.text_columns, ',');
  std::erase_if(texts, is_missing);
  if (!texts.empty()) options.text_columns = fmt::format("{}", fmt::join(texts, ","));
  return options;
}

void choose_texts(const std::vector<TypedColumn>& columns, const DatasetOptions& options,
                  const std::string& file, Roles& roles) {
  DatasetOptions with_names = options;
  with_names.header = "yes";
  if (const auto named = find_named(columns, feature::kClass);
      named && options.label_column.empty())
    with_names.label_column = columns[*named].name;
  const Columns chosen = choose_columns(names_of(columns), with_names, true, file);
  roles.label = chosen.label;
  for (const std::size_t text : chosen.texts) {
    if (!options.text_columns.empty() || columns[text].is_string) roles.texts.push_back(text);
  }
}

void choose_features(const std::vector<TypedColumn>& columns, const DatasetOptions& options,
                     const std::string& file, Roles& roles) {
  if (!options.label_column.empty()) {
    roles.label = find_column(options.label_column, names_of(columns), true, file);
  } else if (const auto named = find_named(columns, feature::kClass)) {
    roles.label = named;
  } else {
    const auto found = std::ranges::find_if(columns, [](const TypedColumn& column) {
      return is_label_name(column.name) && can_be_label(column);
    });
    if (found != columns.end()) roles.label = static_cast<std::size_t>(found - columns.begin());
  }
  std::optional<std::size_t> image;
  for (const auto name : kImageNames) {
    const auto named = find_named(columns, name);
    if (!image && named && columns[*named].is_binary && !columns[*named].is_list) image = named;
  }
  // Of numbers and their names, which Sullae writes, both are of use; beside another label they
  // would be in its place.
  const bool has_both =
      roles.label && feature::is_label(columns[*roles.label].name) && options.label_column.empty();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const TypedColumn& column = columns[i];
    if (i == roles.label) continue;
    if (roles.label && !has_both && feature::is_label(column.name)) continue;
    if (!column.kind) {
      log::warning("{}: its column '{}' is of type {}, which no feature has, and is left out", file,
                   column.name, column.type);
    } else if (i == image) {
      roles.features.emplace_back(feature::kImage, i);
    } else if (image && (column.name == "image.path" || column.name == "img.path")) {
      roles.features.emplace_back(feature::kFileName, i);
    } else {
      roles.features.emplace_back(column.name, i);
    }
  }
}

void check_type(const TypedColumn& column, const std::string& file) {
  if (column.kind) return;
  throw InputError(
      fmt::format("{}: its column '{}' is of type {}, expected numbers, texts, or lists of them",
                  file, column.name, column.type));
}

}  // namespace

Roles choose_roles(const std::vector<TypedColumn>& columns, const DatasetOptions& given,
                   const std::string& file) {
  const DatasetOptions options = given.stand_alone ? those_there(given, columns) : given;
  Roles roles;
  const bool of_texts =
      !options.text_columns.empty() || std::ranges::any_of(columns, [](const TypedColumn& column) {
        return is_text_name(column.name) && column.is_string;
      });
  if (of_texts) {
    choose_texts(columns, options, file, roles);
  } else {
    choose_features(columns, options, file, roles);
  }
  for (const auto& name : options.kept_columns) {
    const std::size_t kept = find_column(name, names_of(columns), true, file);
    check_type(columns[kept], file);
    roles.features.emplace_back(std::string(feature::kColumn) + name, kept);
  }
  if (roles.label) {
    const TypedColumn& label = columns[*roles.label];
    check_type(label, file);
    if (label.is_list)
      throw InputError(fmt::format(
          "{}: its column '{}' is of type {}, expected one label a sample; say which column is the "
          "label with --label-column",
          file, label.name, label.type));
  }
  for (const std::size_t text : roles.texts) check_type(columns[text], file);
  return roles;
}

}  // namespace sullae::data

#include "data/columnar/roles.h"

#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/log.h"
#include "data/table/columns.h"

namespace sullae::data {
namespace {

constexpr std::array<std::string_view, 8> kImageNames = {
    "image/encoded", "image.bytes", "img.bytes", "image", "img", "jpeg", "jpg", "content"};

bool is_bytes(const arrow::DataType& type) {
  return type.id() == arrow::Type::BINARY || type.id() == arrow::Type::LARGE_BINARY ||
         type.id() == arrow::Type::BINARY_VIEW;
}

bool can_be_label(const arrow::DataType& type) {
  return is_text(type) || (feature_kind(type) == FeatureKind::integer && !has_lists(type));
}

std::optional<std::size_t> find_named(const std::vector<Leaf>& leaves, std::string_view name) {
  const auto found = std::ranges::find(leaves, name, &Leaf::name);
  if (found == leaves.end()) return std::nullopt;
  return static_cast<std::size_t>(found - leaves.begin());
}

std::vector<std::string> names_of(const std::vector<Leaf>& leaves) {
  std::vector<std::string> names;
  for (const Leaf& leaf : leaves) names.push_back(leaf.name);
  return names;
}

void choose_texts(const std::vector<Leaf>& leaves, const DatasetOptions& options,
                  const std::string& file, Roles& roles) {
  DatasetOptions with_names = options;
  with_names.header = "yes";
  if (const auto named = find_named(leaves, feature::kClass); named && options.label_column.empty())
    with_names.label_column = leaves[*named].name;
  const Columns columns = choose_columns(names_of(leaves), with_names, true, file);
  roles.label = columns.label;
  for (const std::size_t text : columns.texts) {
    if (!options.text_columns.empty() || is_text(*leaves[text].type)) roles.texts.push_back(text);
  }
}

void choose_features(const std::vector<Leaf>& leaves, const DatasetOptions& options,
                     const std::string& file, Roles& roles) {
  if (!options.label_column.empty()) {
    roles.label = find_column(options.label_column, names_of(leaves), true, file);
  } else if (const auto named = find_named(leaves, feature::kClass)) {
    roles.label = named;
  } else {
    const auto found = std::ranges::find_if(leaves, [](const Leaf& leaf) {
      return is_label_name(leaf.name) && can_be_label(*leaf.type);
    });
    if (found != leaves.end()) roles.label = static_cast<std::size_t>(found - leaves.begin());
  }
  std::optional<std::size_t> image;
  for (const auto name : kImageNames) {
    const auto named = find_named(leaves, name);
    if (!image && named && is_bytes(*leaves[*named].type)) image = named;
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Leaf& leaf = leaves[i];
    if (i == roles.label) continue;
    if (!feature_kind(*leaf.type)) {
      log::warning("{}: its column '{}' is of type {}, which no feature has, and is left out", file,
                   leaf.name, leaf.type->ToString());
    } else if (i == image) {
      roles.features.emplace_back(feature::kImage, i);
    } else if (image && (leaf.name == "image.path" || leaf.name == "img.path")) {
      roles.features.emplace_back(feature::kFileName, i);
    } else {
      roles.features.emplace_back(leaf.name, i);
    }
  }
}

void check_type(const std::vector<Leaf>& leaves, std::size_t leaf, const std::string& file) {
  if (feature_kind(*leaves[leaf].type)) return;
  throw InputError(
      fmt::format("{}: its column '{}' is of type {}, expected numbers, texts, or lists of them",
                  file, leaves[leaf].name, leaves[leaf].type->ToString()));
}

}  // namespace

Roles choose_roles(const std::vector<Leaf>& leaves, const DatasetOptions& options,
                   const std::string& file) {
  Roles roles;
  const bool of_texts =
      !options.text_columns.empty() || std::ranges::any_of(leaves, [](const Leaf& leaf) {
        return is_text_name(leaf.name) && is_text(*leaf.type);
      });
  if (of_texts) {
    choose_texts(leaves, options, file, roles);
  } else {
    choose_features(leaves, options, file, roles);
  }
  for (const auto& name : options.kept_columns) {
    const std::size_t kept = find_column(name, names_of(leaves), true, file);
    check_type(leaves, kept, file);
    roles.features.emplace_back(std::string(feature::kColumn) + name, kept);
  }
  if (roles.label) {
    check_type(leaves, *roles.label, file);
    const Leaf& label = leaves[*roles.label];
    if (has_lists(*label.type))
      throw InputError(fmt::format(
          "{}: its column '{}' is of type {}, expected one label a sample; say which column is the "
          "label with --label-column",
          file, label.name, label.type->ToString()));
  }
  for (const std::size_t text : roles.texts) check_type(leaves, text, file);
  return roles;
}

}  // namespace sullae::data

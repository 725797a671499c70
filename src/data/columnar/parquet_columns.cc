#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <variant>

#include "base/utf8.h"
#include "sullae/data/parquet.h"

namespace sullae::data {
namespace {

using Kind = FeatureType::Kind;

struct SeenKind {
  Kind kind;
  std::size_t sample = 0;  // where it was seen first
  bool is_list = false;
  bool is_told = false;  // by the set
};

bool is_utf8(const Values<std::string>& values) {
  return std::ranges::all_of(values, [](const std::string& value) {
    return find_invalid_utf8(value) == std::string::npos;
  });
}

Kind kind_of(std::string_view name, const Feature& feature) {
  if (std::holds_alternative<Values<float>>(feature)) return Kind::real;
  if (std::holds_alternative<Values<double>>(feature)) return Kind::real64;
  if (std::holds_alternative<Values<std::int64_t>>(feature)) return Kind::integer;
  const bool is_image = name == feature::kImage || name == feature::kPixels;
  return !is_image && is_utf8(std::get<Values<std::string>>(feature)) ? Kind::text : Kind::bytes;
}

const char* name_of(Kind kind) {
  return kind == Kind::real || kind == Kind::real64
             ? "numbers with fractions"
             : (kind == Kind::integer ? "whole numbers" : "bytes");
}

bool are_bytes(Kind kind) { return kind == Kind::text || kind == Kind::bytes; }

// In runs, so that of what is decoded together not all is.
std::vector<std::size_t> spread(std::size_t size, std::size_t most) {
  constexpr std::size_t kRun = 100;
  std::vector<std::size_t> places;
  const std::size_t runs = size <= most ? 1 : std::max<std::size_t>(1, most / kRun);
  const std::size_t run = size <= most ? size : std::min(kRun, most);
  for (std::size_t i = 0; i < runs; ++i) {
    for (std::size_t j = 0; j < run; ++j) places.push_back(size * i / runs + j);
  }
  return places;
}

}  // namespace

std::vector<FeatureType> parquet_columns(const Dataset& set, std::size_t most) {
  std::map<std::string, SeenKind> seen;
  for (const FeatureType& type : set.feature_types())
    seen[type.name] = {.kind = type.kind, .is_list = type.dimensions > 0, .is_told = true};
  for (const std::size_t i : spread(set.size(), most)) {
    Example example;
    try {
      example = set.read(i);
    } catch (const DamagedRecord&) {
      continue;
    }
    for (const auto& [name, feature] : example.features) {
      const Kind kind = kind_of(name, feature);
      auto& column = seen.try_emplace(name, SeenKind{.kind = kind, .sample = i}).first->second;
      if (column.is_told) continue;
      if (column.kind != kind && !(are_bytes(column.kind) && are_bytes(kind)))
        throw InputError(fmt::format(
            "feature '{}' is of {} in {}, and of {} in {}: expected one kind", name,
            name_of(column.kind), set.place(column.sample), name_of(kind), set.place(i)));
      if (kind == Kind::bytes) column.kind = Kind::bytes;
      if (std::visit([](const auto& values) { return values.size(); }, feature) != 1)
        column.is_list = true;
    }
  }
  std::vector<FeatureType> columns;
  for (const auto& [name, column] : seen)
    columns.push_back(
        {.name = name, .kind = column.kind, .dimensions = column.is_list ? std::size_t{1} : 0});
  return columns;
}

}  // namespace sullae::data

// A column of a table that has names and types.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>

#include "sullae/data/dataset.h"

namespace sullae::data {

enum class FeatureKind { bytes, real, integer };

struct TypedColumn {
  std::string name;
  /// What its cells are as features; none where no feature has such values.
  std::optional<FeatureKind> kind;
  bool is_string = false;  ///< texts by their type
  bool is_binary = false;  ///< bytes by their type
  bool is_list = false;    ///< of several values a cell
  std::string type;        ///< for messages
};

/// A number as the feature that it becomes. Throws DamagedRecord for a key, in a column of reals, that would come out as another one.
inline float real_of(double value, bool is_key) {
  const auto real = static_cast<float>(value);
  if (is_key && std::trunc(value) == value && static_cast<double>(real) != value)
    throw DamagedRecord(fmt::format(
        "has {:.0f}, in a column of reals, which are float32 here and hold whole numbers up to "
        "16777216: expected a column of whole numbers, or of texts",
        value));
  return real;
}

}  // namespace sullae::data

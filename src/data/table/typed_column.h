// A column of a table that has names and types.
#pragma once

#include <optional>
#include <string>

namespace sullae::data {

enum class FeatureKind { bytes, real, integer };

struct TypedColumn {
  std::string name;
  /// What its cells are as features; none where no feature has such values.
  std::optional<FeatureKind> kind;
  bool is_string = false;  ///< texts by their type
  bool is_binary = false;  ///< bytes by their type
  bool is_list = false;    ///< of several values a cell
  bool is_double = false;  ///< reals that float32 may not hold
  std::string type;        ///< for messages
};

}  // namespace sullae::data

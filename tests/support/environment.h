// Environments that are not this process's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/environment.h"

namespace sullae::testing {

/// In which one variable is set.
inline Environment environment_of(std::string name, std::string value) {
  return [=](std::string_view asked) -> std::optional<std::string> {
    return asked == name ? std::optional(value) : std::nullopt;
  };
}

/// In which these are.
inline Environment environment_of(std::map<std::string, std::string> values) {
  return [=](std::string_view asked) -> std::optional<std::string> {
    const auto found = values.find(std::string(asked));
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

inline Environment empty_environment() {
  return [](std::string_view) {
    return std::nullopt;
  };
}

}  // namespace sullae::testing

// Environments that are not this process's.
#pragma once

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

inline Environment empty_environment() {
  return [](std::string_view) {
    return std::nullopt;
  };
}

}  // namespace sullae::testing

// Numbers of things, in English.
#pragma once

#include <fmt/format.h>

#include <string>

namespace sullae {

/// "1 rank", "3 ranks".
template <class Number>
std::string counted(Number number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

}  // namespace sullae

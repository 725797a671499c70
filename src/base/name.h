// Names that users give to things, and that become parts of paths, jobs' names and command lines.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string_view>

namespace sullae {

/// At most 64 letters, digits, '-', '_' and '.', of which neither '.' nor '-' is the first.
inline bool is_name(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  const auto is_allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  };
  return !text.empty() && text.size() <= kLongest && std::ranges::all_of(text, is_allowed) &&
         text.front() != '.' && text.front() != '-';
}

}  // namespace sullae

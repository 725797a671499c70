// Text of which only ASCII letters have a case, in any locale.
#pragma once

#include <string>
#include <string_view>

namespace sullae {

inline std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace sullae

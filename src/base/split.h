// Lists in texts.
#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace sullae {

/// What stands between separators; nothing after the last one is no part.
inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

}  // namespace sullae

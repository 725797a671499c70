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

/// Lines without their ends, of either kind, without the mark for UTF-8 that some editors begin a
/// file with, and without empty ones at the end.
inline std::vector<std::string> lines_of(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  auto lines = split(text, '\n');
  for (std::string& line : lines) {
    if (line.ends_with('\r')) line.pop_back();
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

}  // namespace sullae

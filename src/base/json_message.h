// What a JSON library says, for people.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace sullae {

/// Without nlohmann-json's "[json.exception.parse_error.101] ".
inline std::string json_message(const std::exception& error) {
  const std::string_view what = error.what();
  const auto begin = what.find("] ");
  const bool marked = what.starts_with("[json.exception") && begin != std::string_view::npos;
  return std::string(marked ? what.substr(begin + 2) : what);
}

}  // namespace sullae

// Numbers that people and programs write.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace sullae {

/// The number that `text` is, all of it, as std::from_chars reads it. Empty for another text, and
/// for a number that Number cannot hold.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace sullae

// What nobody else can guess.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/random.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/system_error.h"

namespace sullae {

/// 128 random bits, in hexadecimal. Throws Error.
inline std::string draw_secret() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw system_error("getrandom");
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

/// Takes as long for any two texts of a length, so that none can be guessed letter by letter.
inline bool equal_in_constant_time(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    difference = static_cast<unsigned char>(difference | (one[i] ^ other[i]));
  return difference == 0;
}

}  // namespace sullae

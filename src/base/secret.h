// What nobody else can guess.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/random.h>

#include <array>
#include <string>

#include "base/system_error.h"

namespace sullae {

/// 128 random bits, in hexadecimal. Throws Error.
inline std::string draw_secret() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw system_error("getrandom");
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

}  // namespace sullae

// Whether bytes are UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <string_view>

namespace sullae::data {

/// The offset of the first byte that starts no valid sequence, or npos.
inline std::size_t find_invalid_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto continues = [&](std::size_t i) {
    return (byte(i) & 0xc0U) == 0x80U;
  };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned first = byte(i);
    const unsigned second = byte(i + 1);
    std::size_t length = 0;
    if (first < 0x80) {
      length = 1;
    } else if (first >= 0xc2 && first <= 0xdf && continues(i + 1)) {
      length = 2;
    } else if (first >= 0xe0 && first <= 0xef && continues(i + 1) && continues(i + 2) &&
               !(first == 0xe0 && second < 0xa0) && !(first == 0xed && second > 0x9f)) {
      length = 3;
    } else if (first >= 0xf0 && first <= 0xf4 && continues(i + 1) && continues(i + 2) &&
               continues(i + 3) && !(first == 0xf0 && second < 0x90) &&
               !(first == 0xf4 && second > 0x8f)) {
      length = 4;
    }
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

}  // namespace sullae::data

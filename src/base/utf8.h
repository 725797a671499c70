// Whether bytes are UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sullae {

/// The bytes of the sequence that `text` begins with; 0 where that is no valid one.
inline std::size_t utf8_sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto continues = [&](std::size_t i) {
    return (byte(i) & 0xc0U) == 0x80U;
  };
  const unsigned first = byte(0);
  const unsigned second = byte(1);
  if (first < 0x80) return text.empty() ? 0 : 1;
  if (first >= 0xc2 && first <= 0xdf && continues(1)) return 2;
  if (first >= 0xe0 && first <= 0xef && continues(1) && continues(2) &&
      !(first == 0xe0 && second < 0xa0) && !(first == 0xed && second > 0x9f))
    return 3;
  if (first >= 0xf0 && first <= 0xf4 && continues(1) && continues(2) && continues(3) &&
      !(first == 0xf0 && second < 0x90) && !(first == 0xf4 && second > 0x8f))
    return 4;
  return 0;
}

/// `text` with U+FFFD in place of each byte that starts no valid sequence.
inline std::string replace_invalid_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    result += length == 0 ? std::string_view("\xef\xbf\xbd") : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

/// The offset of the first byte that starts no valid sequence, or npos.
inline std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_sequence_length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

}  // namespace sullae

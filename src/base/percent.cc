#include "base/percent.h"

#include <fmt/format.h>

namespace sullae {
namespace {

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// `plain`: what stays, beside letters and digits.
std::string encode(std::string_view text, std::string_view plain) {
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') || plain.find(c) != std::string_view::npos;
    if (is_plain) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

}  // namespace

std::string percent_encode(std::string_view text) { return encode(text, "-._~"); }
std::string percent_encode_path(std::string_view path) { return encode(path, "-._~/"); }

std::string percent_decode(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool coded =
        text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0;
    result += coded ? static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2])) : text[i];
    if (coded) i += 2;
  }
  return result;
}

}  // namespace sullae

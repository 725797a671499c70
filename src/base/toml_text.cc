#include "base/toml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/file.h"
#include "sullae/error.h"

namespace sullae {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr std::string_view kMark = "\xef\xbb\xbf";

// What `text` begins with, as far as TOML's texts and comments go: all up to the character behind it.
std::size_t piece_at(std::string_view text) {
  if (text.starts_with('#')) return std::min(text.find('\n'), text.size());
  for (const std::string_view quote : {"\"\"\"", "'''", "\"", "'"}) {
    if (!text.starts_with(quote)) continue;
    const bool escapes = quote.front() == '"';
    for (std::size_t i = quote.size(); i < text.size(); ++i) {
      if (escapes && text[i] == '\\') {
        ++i;
      } else if (text.substr(i).starts_with(quote)) {
        // A text of several lines may end with one or two quotes of its own.
        std::size_t end = i + quote.size();
        while (quote.size() == 3 && end < i + 5 && end < text.size() && text[end] == quote.front())
          ++end;
        return end;
      } else if (quote.size() == 1 && text[i] == '\n') {
        return i;  // not closed, which the parser says
      }
    }
    return text.size();
  }
  return 1;
}

// From 1; 0 for none.
std::size_t line_of_stray_character(std::string_view text) {
  std::size_t line = 1;
  for (std::size_t at = text.starts_with(kMark) ? kMark.size() : 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) >= 0x80) return line;
    const auto piece = text.substr(at, piece_at(text.substr(at)));
    line += static_cast<std::size_t>(std::ranges::count(piece, '\n'));
    at += piece.size();
  }
  return 0;
}

}  // namespace

void check_toml(std::string_view text, const std::string& name) {
  if (const auto line = line_of_stray_character(text); line > 0) {
    throw InputError(fmt::format(
        "{}, line {}: a character stands outside of quotes that only texts and comments may have",
        name, line));
  }
}

std::string read_toml(const std::filesystem::path& file) {
  std::string text = read_file(file, kMostBytes);
  check_toml(text, file.string());
  return text;
}

}  // namespace sullae

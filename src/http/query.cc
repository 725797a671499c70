#include "http/query.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/number.h"
#include "base/percent.h"
#include "base/request_error.h"

namespace sullae::http {
namespace {

// A form's, where a blank is a plus.
std::string decode(std::string_view text) {
  std::string plain(text);
  std::ranges::replace(plain, '+', ' ');
  return percent_decode(plain);
}

}  // namespace

std::vector<std::string> texts_of(const std::string& query, const std::string& name) {
  std::vector<std::string> texts;
  for (std::string_view rest = query; !rest.empty();) {
    const auto end = std::min(rest.find('&'), rest.size());
    const auto pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const auto equals = std::min(pair.find('='), pair.size());
    if (decode(pair.substr(0, equals)) == name && equals < pair.size())
      texts.push_back(decode(pair.substr(equals + 1)));
  }
  return texts;
}

std::optional<std::string> text_of(const std::string& query, const std::string& name) {
  auto texts = texts_of(query, name);
  if (texts.empty()) return std::nullopt;
  return std::move(texts.front());
}

std::int64_t number_of(const std::string& query, const std::string& name, std::int64_t otherwise) {
  const auto text = text_of(query, name);
  if (!text) return otherwise;
  const auto number = number_in<std::int64_t>(*text).value_or(-1);
  if (number < 0) refuse(fmt::format("{}: expected a number", name));
  return number;
}

}  // namespace sullae::http

#include "serve/http/query.h"

#include <fmt/format.h>

#include <charconv>

#include "base/request_error.h"

namespace sullae::serve {

std::int64_t number_of(const std::string& query, const std::string& name, std::int64_t otherwise) {
  const auto text = "&" + query;
  const auto begin = text.find("&" + name + "=");
  if (begin == std::string::npos) return otherwise;
  const char* const first = text.data() + begin + name.size() + 2;
  const char* const end = text.data() + std::min(text.find('&', begin + 1), text.size());
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(first, end, number);
  if (error != std::errc{} || stop != end || number < 0)
    throw RequestError(Refusal::invalid, fmt::format("{}: expected a number", name));
  return number;
}

}  // namespace sullae::serve

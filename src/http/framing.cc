#include "http/framing.h"

#include <algorithm>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>

namespace sullae::http {
namespace {

namespace beast = boost::beast;

bool all_digits(beast::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool is_host(beast::string_view text) {
  return std::ranges::none_of(text, [](char c) {
    return c == ',' || c == ' ' || c == '\t' || c == '/' || c == '@' || c == '?' || c == '#';
  });
}

}  // namespace

std::optional<std::string> doubt_about(
    const beast::http::header<true, beast::http::fields>& header) {
  const auto encodings = header.equal_range(beast::http::field::transfer_encoding);
  const auto lengths = header.equal_range(beast::http::field::content_length);
  const auto hosts = header.equal_range(beast::http::field::host);
  const auto count = [](const auto& range) {
    return std::distance(range.first, range.second);
  };
  if (count(encodings) > 0) {
    if (header.version() < 11) return "Transfer-Encoding belongs to HTTP/1.1";
    if (count(encodings) > 1 || !beast::iequals(encodings.first->value(), "chunked"))
      return "Transfer-Encoding: expected chunked, and nothing else";
    if (count(lengths) > 0) return "expected Transfer-Encoding or Content-Length, not both";
  }
  if (count(lengths) > 1) return "expected one Content-Length";
  if (count(lengths) == 1 && !all_digits(lengths.first->value()))
    return "Content-Length: expected a number of bytes";
  if (count(hosts) > 1) return "expected one Host";
  if (count(hosts) == 0 && header.version() >= 11) return "Host is missing";
  if (count(hosts) == 1 && !is_host(hosts.first->value())) return "Host: expected a host's name";
  return std::nullopt;
}

std::pair<int, std::string> explain(const boost::system::error_code& error,
                                    std::size_t max_body_bytes) {
  if (error == beast::http::error::body_limit)
    return {413, "the body has more than " + std::to_string(max_body_bytes) +
                     " bytes, which is the most that is taken (--max-body-megabytes)"};
  if (error == beast::http::error::header_limit) return {431, "the headers are too long"};
  if (error == beast::error::timeout) return {408, "the request took too long to arrive"};
  if (error == beast::http::error::buffer_overflow)
    return {400, "a chunk's extensions or the trailers are too long"};
  return {400, "the request is no HTTP: " + error.message()};
}

std::optional<Target> parse_target(std::string_view text) {
  Target target;
  if (text.empty()) return std::nullopt;
  if (text.front() != '/') {
    const auto scheme = text.find("://");
    if (scheme == std::string_view::npos) return std::nullopt;
    const beast::string_view name(text.data(), scheme);
    if (!beast::iequals(name, "http") && !beast::iequals(name, "https")) return std::nullopt;
    text.remove_prefix(scheme + 3);
    const auto end = std::min(text.find_first_of("/?"), text.size());
    if (end == 0 || !is_host({text.data(), end})) return std::nullopt;
    target.host = std::string(text.data(), end);
    text.remove_prefix(end);
  }
  const auto question = std::min(text.find('?'), text.size());
  target.path = question == 0 ? "/" : std::string(text.data(), question);
  if (question < text.size()) target.query = std::string(text.substr(question + 1));
  return target;
}

}  // namespace sullae::http

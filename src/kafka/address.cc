#include "kafka/address.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "base/environment.h"
#include "base/split.h"
#include "sullae/error.h"

namespace sullae::kafka {
namespace {

constexpr std::string_view kScheme = "kafka://";

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw InputError(
      fmt::format("{}: {}: expected kafka://HOST:PORT[,HOST:PORT…]/TOPIC, and which "
                  "messages of which partitions as ?0=0-500&1=20-498",
                  text, why));
}

// As Kafka has it (org.apache.kafka.common.internals.Topic).
bool is_topic(std::string_view name) {
  constexpr std::size_t kLongest = 249;
  const auto is_allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kLongest && name != "." && name != ".." &&
         std::ranges::all_of(name, is_allowed);
}

Window parse_window(std::string_view text, std::string_view ranges) {
  Window window;
  for (const auto& one : split(ranges, '&')) {
    const auto equals = one.find('=');
    const auto dash = one.find('-', equals == std::string::npos ? 0 : equals);
    if (equals == std::string::npos || dash == std::string::npos)
      refuse(text, fmt::format("'{}' is no range of a partition", one));
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    const std::string what = fmt::format("{}: '{}'", text, one);
    const auto partition =
        static_cast<std::int32_t>(parse_integer(std::string_view(one).substr(0, equals), what, 0,
                                                std::numeric_limits<std::int32_t>::max()));
    const Range range{
        .begin = parse_integer(std::string_view(one).substr(equals + 1, dash - equals - 1), what, 0,
                               kMost),
        .end = parse_integer(std::string_view(one).substr(dash + 1), what, 0, kMost)};
    if (range.begin > range.end) refuse(text, fmt::format("'{}' ends before it begins", one));
    if (!window.emplace(partition, range).second)
      refuse(text, fmt::format("partition {} is there twice", partition));
  }
  return window;
}

}  // namespace

std::string Address::name() const { return fmt::format("{}{}/{}", kScheme, brokers, topic); }

std::string Address::to_string() const {
  std::string text = name();
  char mark = '?';
  for (const auto& [partition, range] : window) {
    text += fmt::format("{}{}={}-{}", mark, partition, range.begin, range.end);
    mark = '&';
  }
  return text;
}

bool is_address(std::string_view text) { return text.starts_with(kScheme); }

Address parse_address(std::string_view text) {
  if (!is_address(text)) refuse(text, "is no address of a topic");
  const std::string_view rest = text.substr(kScheme.size());
  const auto slash = rest.find('/');
  if (slash == std::string_view::npos) refuse(text, "has no topic");
  const auto mark = rest.find('?', slash);
  Address address{
      .brokers = std::string(rest.substr(0, slash)),
      .topic = std::string(rest.substr(
          slash + 1, mark == std::string_view::npos ? std::string_view::npos : mark - slash - 1))};
  if (address.brokers.empty()) refuse(text, "has no broker");
  if (!is_topic(address.topic))
    refuse(text, fmt::format("'{}' is no name of a topic", address.topic));
  if (mark != std::string_view::npos) address.window = parse_window(text, rest.substr(mark + 1));
  return address;
}

}  // namespace sullae::kafka

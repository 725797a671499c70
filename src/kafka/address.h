// "kafka://host:9092,host2:9092/topic", and which of its messages.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace sullae::kafka {

/// Offsets [begin, end) of a partition.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const Range&) const = default;
};
/// By partition.
using Window = std::map<std::int32_t, Range>;

struct Address {
  std::string brokers;  ///< as librdkafka's bootstrap.servers
  std::string topic;
  /// Empty for all that there is.
  Window window = {};

  /// "kafka://brokers/topic", for messages.
  std::string name() const;
  /// With the window, "kafka://brokers/topic?0=0-500&1=0-498", which parse_address() takes.
  std::string to_string() const;
};

bool is_address(std::string_view text);
/// Throws InputError.
Address parse_address(std::string_view text);

}  // namespace sullae::kafka

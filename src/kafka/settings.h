// What an environment says of Kafka.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/environment.h"

namespace sullae::kafka {

using Properties = std::vector<std::pair<std::string, std::string>>;

struct Settings {
  /// How long brokers are waited for: SULLAE_KAFKA_TIMEOUT, in seconds.
  std::chrono::milliseconds timeout{120'000};
  /// Of librdkafka, which Kafka's own clients share for the most part: security.protocol,
  /// sasl.username …; the lines of the file SULLAE_KAFKA_CONFIG ("name=value"; "#" begins a
  /// comment).
  Properties properties;
  /// For messages; empty for none.
  std::string file;
};

/// Throws InputError that names the variable, or the file and the line.
Settings read_settings(const Environment& environment);

}  // namespace sullae::kafka

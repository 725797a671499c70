// When a round of online learning begins.
#pragma once

#include <cstdint>
#include <string>

#include "online/config.h"

namespace sullae::online {

/// What has come since the last round.
struct Waiting {
  /// Samples that have changed, and when the first of them did (milliseconds since 1970).
  std::int64_t examples = 0;
  std::int64_t oldest = 0;
  /// Somebody has called for a round.
  bool called = false;
};

/// "call", "count" or "age"; empty: not yet.
std::string trigger_of(const Waiting& waiting, const OnlineConfig& config, std::int64_t now);

}  // namespace sullae::online

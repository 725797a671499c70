// Watches operations that some ranks have submitted and others have not.
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "engine/negotiation/negotiator.h"

namespace sullae::engine {

/// On rank 0. Used by one thread at a time.
class StallInspector {
 public:
  /// Zero means never.
  StallInspector(std::chrono::milliseconds warning, std::chrono::milliseconds timeout)
      : warning_(warning), timeout_(timeout) {}

  /// Warns once of each operation that has waited longer than `warning`, and returns the names of
  /// those that have waited longer than `timeout`.
  std::vector<std::string> inspect(const std::vector<Unfinished>& unfinished);

 private:
  std::chrono::milliseconds warning_;
  std::chrono::milliseconds timeout_;
  std::set<std::string> warned_;
};

}  // namespace sullae::engine

// Where an elastic job's hosts come from: the seam behind which they are what a script prints, or
// what a batch system gives.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launch/hosts.h"

namespace sullae::elastic {

/// What there is at the moment.
struct Supply {
  std::vector<Host> hosts;
  /// Ranks at least and at most, where they are not what the job began with.
  std::optional<int> min_ranks = {};
  std::optional<int> max_ranks = {};
};

/// Used by one thread, which never waits for it once the job runs.
class HostSource {
 public:
  virtual ~HostSource() = default;
  /// What there is when the job starts; may wait. Throws Error where that cannot be said.
  virtual Supply first() = 0;
  /// What is readable when turn() has something to do; -1 for nothing.
  virtual int fd() const = 0;
  /// When turn() has something to do in any case.
  virtual std::chrono::steady_clock::time_point next() const = 0;
  /// Does not wait. What there is, where that has changed.
  virtual std::optional<Supply> turn() = 0;
  /// The job has nothing on that host any more, and its agent has gone, or goes now.
  virtual void released(const std::string&) {}
};

}  // namespace sullae::elastic

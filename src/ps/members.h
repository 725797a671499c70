// Which workers a server waits for.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "base/deadline.h"

namespace sullae::ps {

/// Workers that are expected and have not come yet, and those that live: that were heard of within the lease. Used by
/// one thread.
class Members {
 public:
  Members(int expected, std::chrono::milliseconds lease);

  /// A worker that comes, or comes again: `incarnation` tells its processes apart.
  void join(int worker, std::uint64_t incarnation, Clock::time_point now);
  /// False of one that has not joined, or has left, or of whose place another process has taken.
  bool hear(int worker, std::uint64_t incarnation, Clock::time_point now);
  void leave(int worker, std::uint64_t incarnation);
  /// Whatever its incarnation.
  void forget(int worker);
  /// Removes those whose lease has ended, and returns them.
  std::vector<int> expire(Clock::time_point now);

  const std::set<int>& counted() const { return counted_; }
  std::set<int> living() const;
  /// As another server had them, who have the lease to say hello.
  void restore(const std::set<int>& living, const std::set<int>& counted, Clock::time_point now);

 private:
  struct Life {
    std::uint64_t incarnation = 0;
    Clock::time_point heard;
  };

  std::chrono::milliseconds lease_;
  std::map<int, Life> living_;
  std::set<int> counted_;  // who lives, and who is expected
};

}  // namespace sullae::ps

// Which workers a server waits for.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "base/deadline.h"

namespace sullae::ps {

/// Workers that are expected and have not come yet, and those that live: that were heard of within
/// the lease. Used by one thread.
class Members {
 public:
  Members(int expected, std::chrono::milliseconds lease);

  /// Where nobody is there: waits for the expected, but for those who are dead, or at rest.
  void begin(const std::set<int>& dead);

  /// A worker that comes, or comes again: `incarnation` tells its processes apart. One that was not
  /// expected is waited for from count() on, which is to come with its first gradient.
  void join(int worker, std::uint64_t incarnation, Clock::time_point now);
  /// False of one that has not joined, or has left, or whose place another process has taken. One
  /// that restore() has brought lives by that, but is to say hello, too.
  bool hear(int worker, std::uint64_t incarnation, Clock::time_point now);
  /// Another process lives as this worker, which came after that one.
  bool was_replaced(int worker, std::uint64_t incarnation) const;
  /// Not as restore() has brought it.
  bool has_joined(int worker) const;
  /// False of another process's than the one that is there.
  bool leave(int worker, std::uint64_t incarnation);
  /// One that lives is waited for no more, until count().
  void rest(int worker);
  bool rests(int worker) const { return resting_.contains(worker); }
  void count(int worker);
  /// Whatever its incarnation.
  void forget(int worker);
  /// Removes those whose lease has ended, and returns them.
  std::vector<int> expire(Clock::time_point now);

  const std::set<int>& counted() const { return counted_; }
  std::set<int> living() const;
  const std::set<int>& resting() const { return resting_; }
  /// As the server before this one had them: those who lived have the lease to be heard of, from
  /// renew() on.
  void restore(const std::set<int>& living, const std::set<int>& counted,
               const std::set<int>& resting);
  void renew(Clock::time_point now);
  /// Whoever is waited for lives, and has the lease to be heard of.
  void expect_to_hear(Clock::time_point now);

 private:
  struct Life {
    std::uint64_t incarnation = 0;
    Clock::time_point heard;
  };

  int expected_;
  std::chrono::milliseconds lease_;
  std::map<int, Life> living_;
  std::map<int, std::uint64_t> replaced_;  // the incarnation before that of one that lives
  std::set<int> counted_;  // who is waited for: those who live, and those who are expected
  std::set<int> resting_;
};

}  // namespace sullae::ps

// Which step each worker is at, and who may go on.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>

namespace sullae::ps {

/// What one worker's gradient met.
struct Delay {
  std::int64_t lead = 0;     // steps that it is ahead of the slowest worker
  std::int64_t updates = 0;  // of others, since the values that it was computed with
};

/// Tells the gradients of a worker apart: it numbers them, as each of its processes does.
struct PushId {
  std::uint64_t incarnation = 0;
  std::uint64_t number = 0;
};

/// Every worker's clock: the step behind the last of which a gradient was taken. A worker may go on
/// while its clock is at most `staleness` ahead of the slowest member's (Q. Ho et al., "More
/// effective distributed ML via a stale synchronous parallel parameter server", 2013). With 0 there
/// are rounds, each of which ends when all members have given to it. -1 is without bound. Used by
/// one thread.
class Clocks {
 public:
  explicit Clocks(int staleness) : staleness_(staleness) {}

  int staleness() const { return staleness_; }
  bool has_rounds() const { return staleness_ == 0; }

  /// The clock with which a worker comes, or comes again: no one waits for what it has missed.
  std::int64_t join(int worker, const std::set<int>& members);
  std::int64_t clock(int worker) const;
  /// The worker says that it is at `step`: what came of the steps before was lost with a server
  /// before this one. Whether that is news.
  bool advance(int worker, std::int64_t step);

  /// Whether it has been taken, this one or a later one.
  bool has_taken(int worker, const PushId& id) const;
  /// The number of the last that was taken of this incarnation; 0 where none was.
  std::uint64_t last_taken(int worker, std::uint64_t incarnation) const;
  /// A gradient that has not been taken. `step` is where its worker says that it is: a server that
  /// has come back with what it held earlier is then where the others are, and not as many steps
  /// behind for ever, other ones for each worker.
  Delay take(int worker, const PushId& id, std::int64_t step, const std::set<int>& members);
  /// Whether all members are past the round that is open. To be asked when there are fewer of them,
  /// too.
  bool is_round_full(const std::set<int>& members) const;
  /// Opens the next one. How many gradients were given to it; none where who gave has gone on from
  /// a later step.
  int end_round(const std::set<int>& members);

  bool may_go_on(int worker, const std::set<int>& members) const;
  /// The member whom others wait for; -1 where there is none.
  int slowest(const std::set<int>& members) const;

  /// The values have changed; a worker is given them.
  void updated() { ++updates_; }
  void pulled(int worker) { pulled_[worker] = updates_; }

  /// For a file: without the round that is open, so that its workers give again.
  nlohmann::json numbers() const;
  /// Throws nlohmann::json::exception.
  void restore(const nlohmann::json& numbers);

 private:
  std::int64_t least_clock(const std::set<int>& members) const;

  int staleness_;
  std::map<int, std::int64_t> clocks_;
  std::map<int, PushId> taken_;
  std::map<int, std::int64_t> pulled_;
  std::int64_t updates_ = 0;
  std::int64_t round_ = 0;  // the one that is open
  int given_ = 0;           // gradients, to it
  std::set<int> givers_;    // who gave them
};

}  // namespace sullae::ps

// One slice as its server holds it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <span>
#include <vector>

#include "ps/rule.h"

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

/// Values, the rule's state, and every worker's clock: how many of its gradients were taken. A worker may go on while
/// its clock is at most `staleness` ahead of the slowest member's (Q. Ho et al., "More effective distributed ML via a
/// stale synchronous parallel parameter server", 2013). With 0 gradients of all members are averaged and applied as one;
/// else each is applied when it comes; -1 is without bound. Used by one thread.
class Shard {
 public:
  /// Of ranges of so many elements, each of which may lack a gradient.
  Shard(std::vector<std::size_t> sizes, const Rule& rule, int staleness);

  const std::vector<std::size_t>& sizes() const { return sizes_; }
  using Values = std::shared_ptr<std::vector<float>>;

  bool has_values() const { return values_ != nullptr; }
  void set_values(std::vector<float> values);
  /// As they are now: whoever keeps them keeps these, and what changes is a copy.
  const Values& values() const { return values_; }
  std::size_t elements() const { return elements_; }

  /// The clock with which a worker comes, or comes again: no one waits for what it has missed.
  std::int64_t join(int worker, const std::set<int>& members);
  std::int64_t clock(int worker) const;

  struct Gradient {
    int worker = 0;
    PushId id = {};
    double learning_rate = 0;
    std::span<const std::uint8_t> present;  // by range
    const float* values = nullptr;          // of all ranges
  };
  /// Whether it has been taken, this one or a later one.
  bool has_taken(int worker, const PushId& id) const;
  /// The number of the last that was taken of this incarnation; 0 where none was.
  std::uint64_t last_taken(int worker, std::uint64_t incarnation) const;
  /// One that has not been taken: its worker's clock goes on.
  Delay take(const Gradient& gradient, const std::set<int>& members);
  /// Applies what all members have given. To be called when there are fewer of them, too.
  void settle(const std::set<int>& members);
  bool may_go_on(int worker, const std::set<int>& members) const;
  /// The member whom it waits for.
  int slowest(const std::set<int>& members) const;
  /// By range.
  std::span<RuleState> states() { return states_; }
  int staleness() const { return staleness_; }
  /// For a file: all but the arrays, without the round that is being given.
  nlohmann::json numbers() const;
  /// Takes what numbers() gave, after which arrays() are to be filled. Throws nlohmann::json::exception.
  void restore(const nlohmann::json& numbers);
  /// Values and the rule's state; of a shard without values none.
  std::vector<std::span<float>> arrays();

  /// It is given the values.
  void pulled(int worker) { pulled_[worker] = updates_; }

 private:
  std::int64_t least_clock(const std::set<int>& members) const;
  void add(const Gradient& gradient);
  void apply(double learning_rate, const float* gradient, std::span<const std::uint8_t> present,
             float scale);

  std::vector<std::size_t> sizes_;
  std::size_t elements_ = 0;
  Rule rule_;
  int staleness_;
  Values values_;
  std::vector<RuleState> states_;  // by range
  std::map<int, std::int64_t> clocks_;
  std::map<int, PushId> taken_;
  std::map<int, std::int64_t> pulled_;
  std::int64_t updates_ = 0;

  // Of the round that is being given, where gradients are applied together.
  std::int64_t round_ = 0;
  std::vector<float> sum_;
  std::vector<std::uint8_t> present_;
  int given_ = 0;
  double learning_rate_ = 0;
};

}  // namespace sullae::ps

// A search for the best of several candidates by measurements that disturb each other.
#pragma once

#include <cstddef>
#include <vector>

namespace sullae::engine {

/// Successive halving (K. Jamieson, A. Talwalkar, Non-stochastic Best Arm Identification, 2016):
/// each round measures every candidate that is left once more and keeps the better half, by the
/// median of all measurements of each. Bad candidates cost little, and the close ones are measured
/// most.
class SuccessiveHalving {
 public:
  /// At least one.
  explicit SuccessiveHalving(std::size_t candidates);

  /// The candidate to measure; the best one when done().
  std::size_t current() const { return left_[next_]; }
  /// A measurement of current(): more is better.
  void score(double value);
  bool done() const { return left_.size() == 1; }
  /// The median of what was measured of a candidate.
  double median(std::size_t candidate) const;

 private:
  std::vector<std::vector<double>> scores_;
  std::vector<std::size_t> left_;
  std::size_t next_ = 0;
};

}  // namespace sullae::engine

// Adds time to a sum.
#pragma once

#include <chrono>

namespace sullae::train {

/// From its making to its end.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : sum_(seconds) {}
  ~Stopwatch() { sum_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& sum_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace sullae::train

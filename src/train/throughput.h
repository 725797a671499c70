// How fast a run trains, and what it waits for.
#pragma once

#include <chrono>
#include <cstddef>

namespace sullae::train {

/// The first step makes the plan, and everything is cold: measuring starts after it, and stops
/// between epochs. Used by the training thread.
class Throughput {
 public:
  /// After each step: all ranks' samples, and the seconds that this one has waited so far, in all.
  void step(std::size_t samples, double waiting_for_data, double waiting_for_ranks);
  /// Until the next step.
  void pause();

  double samples_per_second() const { return rate(static_cast<double>(samples_)); }
  double seconds_a_step() const { return steps_ > 0 ? seconds_ / static_cast<double>(steps_) : 0; }
  double part_waiting_for_data() const { return rate(data_); }
  double part_waiting_for_ranks() const { return rate(communication_); }
  /// As step() was told last.
  double waiting_for_data() const { return last_data_; }

 private:
  using Clock = std::chrono::steady_clock;
  double rate(double amount) const { return seconds_ > 0 ? amount / seconds_ : 0; }

  bool running_ = false;
  Clock::time_point last_{};
  double last_data_ = 0;
  double last_ranks_ = 0;
  double seconds_ = 0;
  double data_ = 0;
  double communication_ = 0;
  std::size_t samples_ = 0;
  std::size_t steps_ = 0;
};

}  // namespace sullae::train

// How fast a run trains, and what it waits for.
#pragma once

#include <chrono>
#include <cstddef>

namespace sullae::train {

/// The first step makes the plan, and everything is cold: measuring starts after it, and stops
/// between epochs. Used by the training thread.
class Throughput {
 public:
  /// Steps together. Amounts, and the seconds that they took.
  struct Steps {
    double samples_per_second() const { return part(samples); }
    double seconds_a_step() const { return count > 0 ? seconds / count : 0; }
    double part_waiting_for_data() const { return part(waiting_for_data); }
    double part_waiting_for_ranks() const { return part(waiting_for_ranks); }

    /// Those before count for so much less.
    void fade(double factor);
    void add(const Steps& others);

    double seconds = 0;
    double samples = 0;
    double waiting_for_data = 0;
    double waiting_for_ranks = 0;
    double count = 0;

   private:
    double part(double amount) const { return seconds > 0 ? amount / seconds : 0; }
  };

  /// After each step: all ranks' samples, and the seconds that this one has waited so far, in all.
  void step(std::size_t samples, double waiting_for_data, double waiting_for_ranks);
  /// Until the next step.
  void pause();
  void begin_epoch() { epoch_ = {}; }
  /// What was is no measure any more: other ranks train.
  void begin_anew() { recent_ = {}; }

  /// Those of the last half a minute or so, as which the next ones will be.
  const Steps& recent() const { return recent_; }
  const Steps& epoch() const { return epoch_; }
  const Steps& all() const { return all_; }
  /// As step() was told last.
  double waiting_for_data() const { return last_data_; }

 private:
  using Clock = std::chrono::steady_clock;

  bool running_ = false;
  Clock::time_point last_{};
  double last_data_ = 0;
  double last_ranks_ = 0;
  Steps recent_;
  Steps epoch_;
  Steps all_;
};

}  // namespace sullae::train

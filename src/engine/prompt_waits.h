// Whether to wake a thread for an operation.
#pragma once

#include <chrono>

namespace sullae {

/// Knows a program that waits for each operation as soon as it has submitted it, and before it
/// submits the next: no thread needs to be woken for those, who waits runs them. Guarded by its
/// owner.
class PromptWaits {
 public:
  using Clock = std::chrono::steady_clock;
  /// How long a thread that is not woken sleeps at most, in case of a program that does not wait
  /// this time.
  static constexpr std::chrono::microseconds kLookPeriod{1000};

  /// `alone`: nothing else is to be run. True when a thread has to be woken.
  bool submitted(bool alone) { return submitted(alone, alone ? Clock::now() : time_); }
  bool submitted(bool alone, Clock::time_point now) {
    if (pending_) in_a_row_ = 0;
    pending_ = true;
    time_ = now;
    return !alone || !expected();
  }
  /// For what was submitted last, which nobody has begun. True when from now on that is expected,
  /// which who sleeps must be told.
  bool waited(Clock::time_point now = Clock::now()) {
    if (!pending_) return false;
    pending_ = false;
    if (now - time_ > kPrompt) {
      in_a_row_ = 0;
    } else if (!expected()) {
      ++in_a_row_;
      return expected();
    }
    return false;
  }
  void forget() { in_a_row_ = 0; }
  bool expected() const { return in_a_row_ >= kOften; }

 private:
  static constexpr int kOften = 8;
  static constexpr std::chrono::microseconds kPrompt{50};

  Clock::time_point time_;
  bool pending_ = false;
  int in_a_row_ = 0;
};

}  // namespace sullae

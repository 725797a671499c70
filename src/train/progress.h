// How a training run shows itself: one line that is written over on a terminal, plain lines
// elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace sullae::train {

/// Shows nothing on ranks other than 0. Used by one thread.
class Progress {
 public:
  Progress(bool visible, int log_interval);

  void start_epoch(int epoch, int epochs, std::int64_t steps);
  void step(std::int64_t step, double loss, double samples_per_second);
  /// A line of its own, which stays.
  void line(const std::string& text);

 private:
  void erase();

  bool visible_;
  bool terminal_;
  int log_interval_;
  std::string prefix_;
  std::int64_t steps_ = 0;
  std::chrono::steady_clock::time_point last_shown_{};
  bool shown_ = false;
};

}  // namespace sullae::train

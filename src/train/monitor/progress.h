// How a training run shows itself: one line that is written over on a terminal, plain lines
// elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "train/monitor/moment.h"

namespace sullae::train {

/// "1:02:03", "2:03", or "3 s".
std::string format_duration(double seconds);

/// "epoch 1/3  step 200/938  loss 0.1871  …"
std::string format_moment(const Moment& moment);

/// Shows nothing on ranks other than 0. Used by one thread.
class Progress {
 public:
  Progress(bool visible, int log_interval);

  void step(const Moment& moment);
  /// A line of its own, which stays.
  void line(const std::string& text);

 private:
  void erase();

  bool visible_;
  bool terminal_;
  int log_interval_;
  std::chrono::steady_clock::time_point last_shown_{};
  bool shown_ = false;
};

}  // namespace sullae::train

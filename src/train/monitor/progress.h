// How a training run shows itself: one line that is written over on a terminal, plain lines
// elsewhere.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "sullae/train/observer.h"

namespace sullae::train {

/// "1:02:03", "2:03", or "3 s".
std::string format_duration(double seconds);

/// "epoch 1/3  step 200/938  loss 0.1871  …"
std::string format_moment(const Moment& moment);

/// For rank 0. Used by one thread.
class Progress final : public Observer {
 public:
  explicit Progress(int log_interval);

  void started(const Report& report) override;
  void stepped(const Moment& moment) override;
  void epoch_ended(const Moment& moment, const EpochReport& epoch) override;
  void world_changed(const WorldChange& change) override;
  void noted(const std::string& text) override;
  void ended(const Report& report) override;
  void stopped(const std::string& why) override;

 private:
  void line(const std::string& text);
  void erase();

  bool tested_ = true;
  std::vector<Metric> metrics_;
  bool terminal_;
  int log_interval_;
  std::chrono::steady_clock::time_point last_shown_{};
  bool shown_ = false;
};

}  // namespace sullae::train

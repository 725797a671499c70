// Says when a source stands still, and when it goes on.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "base/deadline.h"
#include "base/log.h"

namespace sullae::kafka {

/// Used by one thread.
class Stall {
 public:
  explicit Stall(std::string name) : name_(std::move(name)) {}

  /// Something has come.
  void goes_on() {
    if (is_told_)
      log::info("{}: goes on, after {:.0f} s", name_,
                std::chrono::duration<double>(Clock::now() - since_).count());
    is_told_ = false;
    since_ = Clock::now();
  }
  /// Nothing has; `why` is asked once.
  void check(const std::function<std::string()>& why) {
    constexpr std::chrono::seconds kPatience{10};
    if (is_told_ || Clock::now() - since_ < kPatience) return;
    is_told_ = true;
    log::warning("{}: nothing has come for {} s: {}", name_, kPatience.count(), why());
  }

 private:
  std::string name_;
  Clock::time_point since_ = Clock::now();
  bool is_told_ = false;
};

}  // namespace sullae::kafka

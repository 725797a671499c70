// Says when something stands still, and when it goes on.
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
  /// `what` is so for as long as it stands: "nothing has come".
  explicit Stall(std::string name, std::string what = "nothing has come")
      : name_(std::move(name)), what_(std::move(what)) {}

  /// It is not so any more.
  void goes_on() {
    if (!told_.empty())
      log::info("{}: goes on, after {:.0f} s", name_,
                std::chrono::duration<double>(Clock::now() - since_).count());
    told_.clear();
    since_ = Clock::now();
    asked_ = since_;
  }
  Clock::duration lasts() const { return Clock::now() - since_; }
  /// It is; `why` is asked every ten seconds, and said where it is another than before.
  void check(const std::function<std::string()>& why) {
    constexpr std::chrono::seconds kPatience{10};
    if (Clock::now() - asked_ < kPatience) return;
    asked_ = Clock::now();
    auto reason = why();
    if (reason == told_) return;
    told_ = std::move(reason);
    log::warning("{}: {} for {:.0f} s: {}", name_, what_,
                 std::chrono::duration<double>(asked_ - since_).count(), told_);
  }

 private:
  std::string name_;
  std::string what_;
  Clock::time_point since_ = Clock::now();
  Clock::time_point asked_ = since_;
  std::string told_;
};

}  // namespace sullae::kafka

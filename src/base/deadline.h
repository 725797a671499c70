// A point in time by which a wait must end, with the name under which a user can change it.
#pragma once

#include <chrono>
#include <string>

namespace sullae {

using Clock = std::chrono::steady_clock;

/// How long a wait may take, and what a user sets to change that.
struct WaitLimit {
  std::chrono::milliseconds time{};
  const char* setting = "";
};

class Deadline {
 public:
  explicit Deadline(const WaitLimit& limit) : Deadline(limit.time, limit.setting) {}
  /// `setting` names what a user sets to change the limit, e.g. "SULLAE_TIMEOUT".
  Deadline(std::chrono::milliseconds limit, const char* setting)
      : at_(Clock::now() + limit), limit_(limit), setting_(setting) {}

  bool passed() const { return Clock::now() >= at_; }
  std::chrono::milliseconds remaining() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now());
    return left.count() > 0 ? left : std::chrono::milliseconds{0};
  }
  /// "within 600 s (SULLAE_TIMEOUT)", for messages.
  std::string describe() const;

 private:
  Clock::time_point at_;
  std::chrono::milliseconds limit_;
  const char* setting_;
};

}  // namespace sullae

// The signals that end a process, to one rank or to all: whether the training is to end after this
// step.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/end_signals.h"
#include "sullae/sullae.h"

namespace sullae::train {

/// Takes the signals while it lives. Used by the training thread.
class EndRequest {
 public:
  /// A signal that a rank has got, or 0: the same on all, within a quarter of a second or a call.
  /// Collective, for ranks that call it equally often: after each step, and before each batch of a
  /// test.
  int on_any_rank(const World& world);

 private:
  EndSignals signals_{EndSignals::Next::ends_at_once};
  std::int64_t calls_ = 0;  // since ranks asked each other, which was then
  std::chrono::steady_clock::time_point last_time_;
  std::int64_t interval_ = 0;  // calls till they ask again; 0 before the first time
};

}  // namespace sullae::train

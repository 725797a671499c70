// SIGINT and SIGTERM to one rank or to all: whether the training is to end after this step.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/end_signals.h"
#include "sullae/sullae.h"

namespace sullae::train {

/// Takes the signals while it lives. Used by the training thread.
class EndRequest {
 public:
  /// A signal that a rank has got, or 0: the same on all, within a quarter of a second or a step. `step` counts all that were done.
  /// Collective, for ranks that step together.
  int on_any_rank(std::int64_t step, const World& world);
  /// The same, of whenever. Collective.
  int on_any_rank(const World& world) const;
  /// Whether this rank has got one.
  bool is_here() const { return signals_.signal() != 0; }

 private:
  EndSignals signals_{EndSignals::Next::ends_at_once};
  std::int64_t last_step_ = 0;  // at which ranks asked each other, and when
  std::chrono::steady_clock::time_point last_time_;
  std::int64_t interval_ = 0;  // steps till they ask again; 0 before the first time
};

}  // namespace sullae::train

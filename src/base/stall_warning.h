// Says once that a wait has become long.
#pragma once

#include <chrono>
#include <concepts>

#include "base/deadline.h"
#include "base/log.h"

namespace sullae {

/// Of one wait of one thread.
class StallWarning {
 public:
  /// `after` of zero means never.
  explicit StallWarning(std::chrono::milliseconds after)
      : start_(Clock::now()), after_(after), pending_(after.count() > 0) {}

  /// Rank 0 speaks for all, and everybody who waits for rank 0. `what` makes the text, where it is
  /// needed.
  template <std::invocable What>
  void check(const What& what, int rank, int awaited) {
    if (!pending_ || (rank != 0 && awaited != 0) || Clock::now() - start_ < after_) return;
    pending_ = false;
    log::warning("{}: rank {} has waited {:.3g} s for rank {}", what(), rank,
                 std::chrono::duration<double>(Clock::now() - start_).count(), awaited);
  }
  void check(const char* what, int rank, int awaited) {
    check([what] { return what; }, rank, awaited);
  }

 private:
  Clock::time_point start_;
  std::chrono::milliseconds after_;
  bool pending_;
};

}  // namespace sullae

// Whether a step's buckets are started in their plan's order, or negotiated.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "torch/reduction/step_flags.h"

namespace sullae {

/// The planned path starts buckets in one order, so one gradient that a rank lacks holds back all
/// behind it until that rank's step(). Where steps differ in which gradients there are, buckets are
/// negotiated instead, in whatever order they become full, until steps are alike again. Every rank
/// sees the same flags and so chooses the same.
class PathChoice {
 public:
  bool is_negotiated() const { return negotiated_; }

  /// After a step with gradients where `presence` says.
  void step(std::vector<Presence> presence, bool anyone_stepped) {
    constexpr int kAlikeSteps = 10;
    const bool alike = presence == presence_ &&
                       std::ranges::find(presence, Presence::on_some_ranks) == presence.end();
    const bool first = presence_.empty();
    presence_ = std::move(presence);
    if (first || !anyone_stepped) return;
    alike_steps_ = alike ? alike_steps_ + 1 : 0;
    negotiated_ = !alike || (negotiated_ && alike_steps_ < kAlikeSteps);
  }

 private:
  bool negotiated_ = false;
  int alike_steps_ = 0;
  std::vector<Presence> presence_;  // of the last step's gradients
};

}  // namespace sullae

// What a schedule comes to, without running it.
#pragma once

#include <vector>

#include "parallel/pipeline/schedule.h"

namespace sullae::pipeline {

struct Costs {
  double forward = 1;
  double backward = 2;
  /// From the end of an action to when the next stage has its result.
  double message = 0;
};

struct Simulated {
  bool deadlock = false;
  double time = 0;
  /// The share of all ranks' time in which they have nothing to do.
  double idle = 0;
  /// By rank: micro-batches that have been forward and not yet backward, times chunks, at most.
  std::vector<int> most_alive;
};

/// `actions` are those of each rank.
Simulated simulate(const std::vector<std::vector<Action>>& actions, int chunks,
                   const Costs& costs = {});

}  // namespace sullae::pipeline

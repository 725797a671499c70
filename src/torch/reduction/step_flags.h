// What ranks tell each other with a bucket's gradients.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "sullae/types.h"

namespace sullae {

/// Whether a parameter had a gradient in a step.
enum class Presence : std::uint8_t { nowhere, on_some_ranks, everywhere };

struct StepFlags {
  std::vector<Presence> presence;  ///< by place
  /// Some rank takes a step of its own, and does not only follow the others'.
  bool anyone_stepped = true;

  /// From what the ranks' flags, 1 or 0 for each place and one for the rank, have been reduced to
  /// by `op`.
  void read(const torch::Tensor& reduced, ReduceOp op, int ranks);
};

}  // namespace sullae

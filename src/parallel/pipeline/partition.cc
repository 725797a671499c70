#include "parallel/pipeline/partition.h"

#include <algorithm>
#include <limits>

namespace sullae::pipeline {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Best {
  double slowest = kNever;
  std::size_t first = 0;  // of the last stage
};

double memory_of(const LayerCost& sum, const PartitionLimits& limits) {
  return sum.parameter_bytes + sum.activation_bytes * limits.alive;
}

// How the first `end` layers become one stage more than `before` has, the last of which is the new
// one.
Best best_division(const std::vector<LayerCost>& layers, const PartitionLimits& limits,
                   const std::vector<Best>& before, std::size_t end) {
  // A rank's stages share its memory.
  const double most =
      limits.memory_bytes > 0 ? limits.memory_bytes / static_cast<double>(limits.chunks) : kNever;
  Best best;
  LayerCost stage;
  for (std::size_t first = end; first-- > 0;) {
    stage.seconds += layers[first].seconds;
    stage.parameter_bytes += layers[first].parameter_bytes;
    stage.activation_bytes += layers[first].activation_bytes;
    if (memory_of(stage, limits) > most || stage.seconds >= best.slowest) break;
    const double slowest = std::max(before[first].slowest, stage.seconds);
    if (slowest < best.slowest) best = {slowest, first};
  }
  return best;
}

}  // namespace

std::vector<std::size_t> partition(const std::vector<LayerCost>& layers,
                                   const PartitionLimits& limits) {
  const auto stages = static_cast<std::size_t>(limits.ranks * limits.chunks);
  // By stages, and by how many layers they have.
  std::vector<std::vector<Best>> best{std::vector<Best>(layers.size() + 1)};
  best[0][0].slowest = 0;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    std::vector<Best> next(layers.size() + 1);
    for (std::size_t end = 1; end <= layers.size(); ++end)
      next[end] = best_division(layers, limits, best[stage], end);
    best.push_back(std::move(next));
  }
  if (best[stages][layers.size()].slowest == kNever) return {};
  std::vector<std::size_t> firsts;
  for (std::size_t stage = stages, end = layers.size(); stage > 0; --stage) {
    end = best[stage][end].first;
    firsts.push_back(end);
  }
  std::ranges::reverse(firsts);
  return firsts;
}

}  // namespace sullae::pipeline

// Layers in a row divided into stages.
#pragma once

#include <cstddef>
#include <vector>

namespace sullae::pipeline {

struct LayerCost {
  double seconds = 0;
  double parameter_bytes = 0;   ///< with gradients and the optimizer's state
  double activation_bytes = 0;  ///< of a micro-batch
};

struct PartitionLimits {
  int ranks = 1;
  int chunks = 1;
  /// Of a rank; 0 for none.
  double memory_bytes = 0;
  /// Micro-batches whose activations a rank keeps.
  int alive = 1;
};

/// The first layer of each of ranks × chunks stages. The slowest stage takes as little time as can
/// be with every rank's memory within the limit. Empty where that cannot be.
std::vector<std::size_t> partition(const std::vector<LayerCost>& layers,
                                   const PartitionLimits& limits);

}  // namespace sullae::pipeline

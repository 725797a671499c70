// The optimizer of what a rank has of a model, as checkpoints take it.
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <map>
#include <string>

#include "sullae/parallel/sharded_optimizer.h"

namespace sullae {

/// An optimizer of all parameters that a rank has of a model: its parts of layers, its stages', or,
/// by the names of the model's parameters, the float32 masters of those that are in 16 bits. It has
/// the groups that `make` makes, in their order; it may lack the last ones where this rank has none
/// of their parameters.
struct PartsOptimizer {
  torch::optim::Optimizer& optimizer;
  /// Makes one like it of the whole model's parameters; see ShardedOptimizer::Maker.
  ShardedOptimizer::Maker make;
  std::map<std::string, torch::Tensor> masters = {};
};

}  // namespace sullae

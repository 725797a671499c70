// Models that are whole on no rank while they are trained.
#pragma once

#include <torch/nn/module.h>

#include "sullae/parallel/sharded_units.h"

namespace sullae::train {

/// What a model is, besides a torch::nn::Module, that is trained in units, each of which is divided
/// among ranks: TrainOptions::shard = "parameters". Ranks run it together, each as often as the
/// others: one that has no samples left goes along with some that it has, or with sample 0, which
/// count nothing (but a batch norm sees them).
class HasUnits {
 public:
  virtual ~HasUnits() = default;
  /// Of the world that trains it, or, with TrainOptions::mesh = "dp=2,shard=4", of such ranks, with
  /// those of "dp" as replicas; and of the type that TrainOptions::precision says; all of its
  /// trained parameters are of these, under the names that they have in the model. Null where it is
  /// whole on each rank.
  virtual ShardedUnits* units() = 0;
};

/// The units of a model that is made of some; null for others.
ShardedUnits* units_of(torch::nn::Module& model);

}  // namespace sullae::train

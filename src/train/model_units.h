// Models that are made of units, and the ranks that train them.
#pragma once

#include <torch/nn/module.h>

#include "sullae/sullae.h"
#include "sullae/train/units.h"
#include "train/models/layer.h"
#include "train/options.h"

namespace sullae::train {

/// Those that options.shard wants a network's layers to be of, if any.
Units make_units(const TrainOptions& options, const World& world);

/// Throws InputError, on every rank, where `units`, which are those of `model`, are not what ranks of `world` train together.
void check_units(const torch::nn::Module& model, const ShardedUnits& units, const World& world);

/// Buffers, and parameters that are not trained, become rank 0's where they belong to no unit; units are equal as they are.
/// Collective.
void broadcast_beside_units(torch::nn::Module& model, const ShardedUnits& units,
                            const World& world);

}  // namespace sullae::train

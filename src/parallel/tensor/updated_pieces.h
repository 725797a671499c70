// What a ShardedOptimizer updates of what a rank has of a model, as checkpoints of models in parts
// see it.
#pragma once

#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <string>

#include "parallel/checkpoint/checkpoint.h"
#include "parallel/parameter_store.h"
#include "parallel/tensor/model_parts.h"
#include "sullae/parallel/parts_optimizer.h"

namespace sullae {

/// This rank's piece of each of `parameters` that is trained, by the first name that it has there.
/// Collective over `world`. Throws InputError, on every rank, where the optimizer is of other
/// parameters.
UpdatedByName pieces_by_name(const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                             const ParameterStore& store, const World& world);

/// What `optimizer` updates, by the first names that its parameters have among `parameters`.
torch::OrderedDict<std::string, torch::Tensor> pieces_called_as(
    const torch::OrderedDict<std::string, torch::Tensor>& parameters, const ParameterStore& store);

/// An optimizer of pieces, in the place of one of parts.
PartsOptimizer as_parts(const Sharded& sharded);

}  // namespace sullae

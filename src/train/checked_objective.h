// What an objective gives, where it gives what it should.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstddef>

#include "sullae/train/objective.h"

namespace sullae::train {

/// Objective::loss(). Throws InputError where that is not one number.
torch::Tensor checked_loss(const Objective& objective, torch::nn::Module& model,
                           const Batch& batch);

/// Objective::measure(). Throws InputError where that has not a number for each of the `metrics`.
Tally checked_tally(const Objective& objective, torch::nn::Module& model, const Batch& batch,
                    std::size_t metrics);

}  // namespace sullae::train

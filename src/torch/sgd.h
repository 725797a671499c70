// SGD's update of many parameters with a few operations.
#pragma once

#include <torch/optim/sgd.h>

#include <vector>

namespace sullae {

/// What torch::optim::SGD does with each of `parameters`, which are dense and have gradients: one
/// operation for all where it has one for each. `momenta` are empty without momentum, and undefined
/// before the first step.
void update_together(std::vector<torch::Tensor> parameters, std::vector<torch::Tensor>& momenta,
                     const torch::optim::SGDOptions& options);

}  // namespace sullae

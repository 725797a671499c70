// Optimizers by name.
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/ordered_dict.h>

#include <memory>
#include <string>
#include <vector>

#include "train/options.h"

namespace sullae::train {

std::vector<std::string> optimizer_names();

/// One that updates `parameters`; biases and norms (one dimension) are in a group without weight decay,
/// unless --decay-all. Throws InputError.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(
    const TrainOptions& options, const torch::OrderedDict<std::string, torch::Tensor>& parameters);

/// Gives the state of each parameter of `from` to the one in its place in `to`.
void move_optimizer_state(torch::optim::Optimizer& from, torch::optim::Optimizer& to);

}  // namespace sullae::train

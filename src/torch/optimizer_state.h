// Everything that an optimizer needs to go on: its state, and its options, which libtorch's own
// load() leaves out.
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/serialize.h>

namespace sullae {

void save_optimizer(torch::serialize::OutputArchive& archive,
                    const torch::optim::Optimizer& optimizer);
void load_optimizer(torch::serialize::InputArchive& archive, torch::optim::Optimizer& optimizer);

}  // namespace sullae

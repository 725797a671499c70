// Where a rank trains.
#pragma once

#include <torch/nn/module.h>

#include "sullae/train/options.h"

namespace sullae::train {

/// What TrainOptions::device says, where `local` is the rank's GPU, or the processor where it has
/// none. Throws InputError for a GPU that is not there, or that there is no use for: with parameter
/// servers, which train in host memory alone so far.
torch::Device device_of(const TrainOptions& options, torch::Device local);

/// The same for `model`: where its units are, if it has some, and the options do not say.
torch::Device device_of(const TrainOptions& options, torch::Device local, torch::nn::Module& model);

/// Of its parameters.
torch::Device device_of(const torch::nn::Module& model);

}  // namespace sullae::train

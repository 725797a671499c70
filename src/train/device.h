// Where a rank trains.
#pragma once

#include <torch/nn/module.h>

#include <string>

#include "sullae/train/options.h"

namespace sullae::train {

/// Why these options train in host memory alone, as "--shard optimizer"; empty: they do not.
std::string host_memory_reason(const TrainOptions& options);

/// What TrainOptions::device says, where `local` is the rank's GPU, or the processor where it has none. Throws InputError for a
/// GPU that is not there, or that the options have no use for.
torch::Device device_of(const TrainOptions& options, torch::Device local);

/// Of its parameters.
torch::Device device_of(const torch::nn::Module& model);

}  // namespace sullae::train

// How losses are scaled.
#pragma once

#include <torch/types.h>

#include <optional>

#include "sullae/torch/precision.h"
#include "train/options.h"

namespace sullae::train {

/// The type that the model computes in; empty for float32.
std::optional<torch::ScalarType> low_precision(const TrainOptions& options);

/// From --loss-scale and --precision. Throws InputError.
LossScalerOptions parse_loss_scale(const TrainOptions& options);

}  // namespace sullae::train

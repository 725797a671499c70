// What layers take, measured.
#pragma once

#include <torch/nn/modules/container/sequential.h>
#include <torch/types.h>

#include <vector>

#include "parallel/pipeline/partition.h"

namespace sullae::pipeline {

/// Of each layer, forward and backward of `sample`, on copies: nothing of `layers` or of the
/// generator of random numbers changes. Throws InputError that names the layer that does not take
/// what comes.
std::vector<LayerCost> measure(const torch::nn::Sequential& layers, const torch::Tensor& sample,
                               double bytes_per_parameter_byte);

}  // namespace sullae::pipeline

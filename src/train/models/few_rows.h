// Linear layers of a few rows.
#pragma once

#include <torch/types.h>

namespace sullae::train {

/// `x` [rows, in] through `weight` [out, in] and `bias` [out], which may be undefined: [rows, out].
/// Without gradients few rows are products of their own, which read each weight once; a matrix
/// product would put all weights in another order first.
torch::Tensor linear_of_few(const torch::Tensor& x, const torch::Tensor& weight,
                            const torch::Tensor& bias = {});

}  // namespace sullae::train

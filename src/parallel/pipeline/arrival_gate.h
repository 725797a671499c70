// Where a stage's graph begins.
#pragma once

#include <torch/types.h>

#include <memory>

namespace sullae::pipeline {

/// `data` for a stage, which may change it in place: backward puts the gradient into `gradient`.
/// Nothing is copied.
torch::Tensor enter_stage(const torch::Tensor& data,
                          const std::shared_ptr<torch::Tensor>& gradient);

}  // namespace sullae::pipeline

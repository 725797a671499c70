// Parameters of a rank that is alone: there are no parts, but of 16 bits what is updated is in
// float32.
#pragma once

#include <torch/types.h>

#include <vector>

#include "torch/bucket_plan.h"

namespace sullae {

/// What is updated of `parameter`: itself, or a master beside it, which begins with `value`.
torch::Tensor updated_alone(const torch::Tensor& parameter, const torch::Tensor& value);

// Of parameters and what is updated of each, in the same order; undefined for nothing.

/// Masters take the gradients.
void give_gradients_alone(const std::vector<PlannedParameter>& parameters,
                          const std::vector<torch::Tensor>& updated);
/// Parameters take the masters.
void publish_alone(const std::vector<PlannedParameter>& parameters,
                   const std::vector<torch::Tensor>& updated);

}  // namespace sullae

// What accumulates a parameter's gradient.
#pragma once

#include <torch/csrc/autograd/variable.h>

namespace sullae {

/// A pointer that shares it: std::shared_ptr up to some libtorch 2.x, then c10::intrusive_ptr.
using Accumulator =
    decltype(torch::autograd::impl::grad_accumulator(std::declval<const torch::Tensor&>()));

}  // namespace sullae

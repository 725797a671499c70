// What autograd tells of a parameter's gradient.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <memory>

#include "torch/compat/accumulator.h"

namespace sullae {

/// Whoever takes gradients as they come. Called by the thread that runs backward.
class GradientListener {
 public:
  virtual ~GradientListener() = default;
  /// Autograd is about to add to the gradient of parameter `index`.
  virtual void before_gradient(std::size_t index) = 0;
  /// It has.
  virtual void on_gradient(std::size_t index) = 0;
};

/// Listens to `parameter` for as long as the listener lives. A parameter refers to the result, its
/// accumulator, but weakly: keep it.
Accumulator listen(const std::weak_ptr<GradientListener>& listener, const torch::Tensor& parameter,
                   std::size_t index);

/// Whether somebody who lives listens to `parameter`.
bool has_listener(const torch::Tensor& parameter);

}  // namespace sullae

// The memory of gradients from step to step, in a world of one, where no bucket holds them.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <vector>

namespace sullae {

/// Autograd makes each gradient anew after a zero_grad() that removes it, and what a step's
/// gradients leave goes back to the system and comes again page by page, which takes a small model
/// longer than its arithmetic. A copy does not. For gradients in host memory of up to 32 MB, which
/// then stay between steps. Used by the thread that trains.
class KeptGradients {
 public:
  explicit KeptGradients(std::size_t parameters) : kept_(parameters) {}

  /// Moves the gradient of the parameter of this number, which had none before this backward, to
  /// where it was in the step before, unless somebody still holds that one.
  void keep(std::size_t index, const torch::Tensor& parameter);

 private:
  std::vector<torch::Tensor> kept_;
};

}  // namespace sullae

// Adam and AdamW of many parameters in one kernel: from libtorch 2.0 on, on GPUs.
#pragma once

#include <torch/torch.h>
#include <torch/version.h>

#include <vector>

namespace sullae {

/// What is updated together: parameters of one type on one GPU, with as many of each of the others,
/// laid out as they are.
struct FusedAdam {
  std::vector<torch::Tensor> parameters = {};
  std::vector<torch::Tensor> gradients = {};
  std::vector<torch::Tensor> moments = {};
  std::vector<torch::Tensor> squares = {};
  std::vector<torch::Tensor> largest_squares = {};  ///< with amsgrad, else none
  std::vector<torch::Tensor> steps =
      {};  ///< how many each has had, this one included; float32, on the GPU
};

#if TORCH_VERSION_MAJOR >= 2
inline constexpr bool kHasFusedAdam = true;

/// `decoupled`: AdamW.
inline void update_fused(const FusedAdam& all, bool decoupled, double lr, double beta1,
                         double beta2, double weight_decay, double eps) {
  const bool amsgrad = !all.largest_squares.empty();
  if (decoupled)
    at::_fused_adamw_(all.parameters, all.gradients, all.moments, all.squares, all.largest_squares,
                      all.steps, lr, beta1, beta2, weight_decay, eps, amsgrad, /*maximize=*/false);
  else
    at::_fused_adam_(all.parameters, all.gradients, all.moments, all.squares, all.largest_squares,
                     all.steps, lr, beta1, beta2, weight_decay, eps, amsgrad, /*maximize=*/false);
}
#else
inline constexpr bool kHasFusedAdam = false;

inline void update_fused(const FusedAdam&, bool, double, double, double, double, double) {}
#endif

}  // namespace sullae

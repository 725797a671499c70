#include "parallel/gradient_norm.h"

#include <torch/torch.h>

#include <cmath>

#include "sullae/parallel/tensor_parallel.h"

namespace sullae {

double own_squares(const torch::nn::Module& module, bool is_first,
                   const std::set<std::string>& elsewhere) {
  const auto parts = parts_of(module);
  double squares = 0;
  for (const auto& item : module.named_parameters()) {
    const torch::Tensor gradient = item.value().grad();
    if (!gradient.defined() || elsewhere.contains(item.key())) continue;
    if (is_first || parts.contains(item.key()))
      squares += std::pow(torch::norm(gradient, 2, torch::kFloat64).item<double>(), 2);
  }
  return squares;
}

void scale_to_norm(const torch::nn::Module& module, double norm, double most) {
  const torch::NoGradGuard guard;
  // As torch::nn::utils::clip_grad_norm_ does.
  const double factor = most / (norm + 1e-6);
  if (factor >= 1) return;
  for (const auto& parameter : module.parameters()) {
    if (parameter.grad().defined()) parameter.grad().mul_(factor);
  }
}

}  // namespace sullae

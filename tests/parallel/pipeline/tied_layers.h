// A model whose first and last layer have the same weights.
#pragma once

#include <torch/torch.h>

#include "parallel/pipeline/small_layers.h"

namespace sullae::testing::small_layers {

// Scores by the vectors of an embedding.
struct HeadImpl : torch::nn::Module {
  HeadImpl() { register_parameter("weight", torch::zeros({7, 4}, torch::kFloat64)); }
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::linear(x, named_parameters()["weight"]);
  }
};
TORCH_MODULE(Head);

inline torch::nn::Embedding embedding() {
  torch::nn::Embedding made(7, 4);
  made->to(torch::kFloat64);
  set_values(*made);
  return made;
}
inline torch::nn::Linear middle() {
  torch::nn::Linear made(4, 4);
  made->to(torch::kFloat64);
  set_values(*made);
  return made;
}

inline torch::Tensor texts_of_seven() {
  return torch::arange(24, torch::kInt64).remainder(7).view({6, 4});
}
inline torch::Tensor cross_entropy(const torch::Tensor& scores, const torch::Tensor& target) {
  return torch::nn::functional::cross_entropy(scores.reshape({-1, 7}), target.reshape({-1}));
}

}  // namespace sullae::testing::small_layers

// The layer that docs/parallel.md makes models of.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace sullae::testing {

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(std::int64_t size)
      : linear(register_module("linear", torch::nn::Linear(size, size))) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::tanh(linear(x)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Block);

}  // namespace sullae::testing

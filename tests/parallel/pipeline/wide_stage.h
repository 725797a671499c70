// A stage of layers in parts.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>

#include "parallel/pipeline/small_layers.h"
#include "sullae/parallel/tensor_parallel.h"

namespace sullae::testing::small_layers {

// Two of them: column, then row.
struct WideImpl : torch::nn::Module {
  WideImpl(const World& world, int number) {
    up = register_module(
        "up", ColumnParallelLinear(
                  ColumnParallelLinearOptions{.in_features = kSize, .out_features = 10}, world));
    down = register_module(
        "down", RowParallelLinear(
                    RowParallelLinearOptions{.in_features = 10, .out_features = kSize}, world));
    to(torch::kFloat64);
    std::map<std::string, torch::Tensor> start;
    torch::nn::Sequential whole(
        {{"up", torch::nn::Linear(kSize, 10)}, {"down", torch::nn::Linear(10, kSize)}});
    whole->to(torch::kFloat64);
    set_values(*whole);
    for (const auto& item : whole->named_parameters()) start[item.key()] = item.value() + number;
    load_parameters(*this, start);
  }
  torch::Tensor forward(const torch::Tensor& x) { return down(torch::tanh(up(x))); }
  ColumnParallelLinear up{nullptr};
  RowParallelLinear down{nullptr};
};
TORCH_MODULE(Wide);

}  // namespace sullae::testing::small_layers

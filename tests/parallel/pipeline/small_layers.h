// Layers small enough for pipelines of a few stages, and what they learn.
#pragma once

#include <torch/torch.h>

#include <cstdint>

// Of its own, since others have layers of their own.
namespace sullae::testing::small_layers {

inline constexpr std::int64_t kBatch = 26;  // uneven parts
inline constexpr std::int64_t kSize = 6;

// Values without libtorch's generator, which threads would share.
inline void set_values(torch::nn::Module& module) {
  const torch::NoGradGuard guard;
  for (const auto& item : module.named_parameters()) {
    double seed = 0;
    for (const char letter : item.key()) seed = seed * 7 + letter;
    auto value = item.value();
    value.copy_((torch::sin(torch::arange(value.numel(), torch::kFloat64) * 12.9898 + seed) * 0.4)
                    .view(value.sizes()));
  }
}

inline torch::nn::Sequential layers_of(int count) {
  torch::nn::Sequential layers;
  for (int i = 0; i < count; ++i) {
    if (i % 2 == 0)
      layers->push_back(torch::nn::Linear(kSize, kSize));
    else
      layers->push_back(torch::nn::Tanh());
  }
  layers->to(torch::kFloat64);
  set_values(*layers);
  return layers;
}

inline torch::Tensor inputs_of(int step) {
  return torch::sin(torch::arange(kBatch * kSize, torch::kFloat64) * 0.37 + step)
      .view({kBatch, kSize});
}
inline torch::Tensor targets_of(int step) { return torch::cos(inputs_of(step) * 3); }

inline torch::Tensor mean_square(const torch::Tensor& output, const torch::Tensor& target) {
  return (output - target).pow(2).mean();
}

}  // namespace sullae::testing::small_layers

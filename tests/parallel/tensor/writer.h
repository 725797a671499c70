// A model with all kinds of layers in parts, for tests.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>

#include "parallel/tensor/parts.h"
#include "sullae/parallel/tensor_parallel.h"

namespace sullae::testing {

inline constexpr std::int64_t kTokens = 23;
inline constexpr std::int64_t kSize = 12;
inline constexpr std::int64_t kTime = 5;
inline constexpr std::int64_t kTexts = 12;

// A transformer of one block, with everything that is divided.
struct WriterImpl : torch::nn::Module {
  explicit WriterImpl(const World& tensor, std::int64_t heads = 3) : world(tensor) {
    tokens = register_module("tokens", VocabParallelEmbedding(kTokens, kSize, world));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kSize})));
    attention = register_module(
        "attention",
        ParallelAttention(
            ParallelAttentionOptions{.embed_dim = kSize, .num_heads = heads, .causal = true},
            world));
    up = register_module(
        "up", ColumnParallelLinear(
                  ColumnParallelLinearOptions{.in_features = kSize, .out_features = 19}, world));
    down = register_module(
        "down", RowParallelLinear(
                    RowParallelLinearOptions{.in_features = 19, .out_features = kSize}, world));
    to(torch::kFloat64);
    const torch::NoGradGuard guard;
    // Without libtorch's generator, which threads would share.
    std::map<std::string, torch::Tensor> start;
    const auto parts = parts_of(*this);
    std::int64_t seed = 1;
    for (const auto& item : named_parameters()) {
      const auto shape = whole_shape(item.value(), find_part(parts, item.key()));
      const auto count = torch::empty(shape).numel();
      start[item.key()] = (torch::sin(torch::arange(count, torch::kFloat64) * 12.9898 +
                                      static_cast<double>(seed++)) *
                           0.3)
                              .view(shape);
    }
    load_parameters(*this, start);
  }
  torch::Tensor block(torch::Tensor x) {
    x = x + attention(norm(x));
    return x + down(torch::gelu(up(x)));
  }
  torch::Tensor loss(const torch::Tensor& text) {
    const auto x = block(tokens(text.narrow(1, 0, kTime)));
    // The head has the embedding's weights.
    const auto scores = torch::linear(copy_to_ranks(x, world), tokens->weight);
    return vocab_parallel_cross_entropy(scores, text.narrow(1, 1, kTime), kTokens, -100, world);
  }
  World world;
  VocabParallelEmbedding tokens{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  ParallelAttention attention{nullptr};
  ColumnParallelLinear up{nullptr};
  RowParallelLinear down{nullptr};
};
TORCH_MODULE(Writer);

inline torch::Tensor texts_of(int step) {
  return (torch::arange(kTexts * (kTime + 1), torch::kInt64) * 7 + step * 5)
      .remainder(kTokens)
      .view({kTexts, kTime + 1});
}

}  // namespace sullae::testing

// A network with a part that is used now and then and one that never is, and steps of its sharded
// optimizer.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "sullae/parallel/sharded_optimizer.h"
#include "sullae/torch.h"

// Of its own, since others have nets of their own.
namespace sullae::testing::sharded {

inline constexpr std::int64_t kBatch = 60;  // divisible by 1 to 6 ranks

struct NetImpl : torch::nn::Module {
  explicit NetImpl(torch::ScalarType type = torch::kFloat32) {
    to(type);
    const torch::NoGradGuard guard;
    std::int64_t seed = 1;
    // Without libtorch's generator, which threads would share.
    for (auto& parameter : parameters()) {
      const auto flat = torch::arange(parameter.numel(), torch::kFloat64);
      parameter.copy_(
          (torch::sin(flat * 12.9898 + static_cast<double>(seed++)) * 0.3).view(parameter.sizes()));
    }
  }
  torch::Tensor forward(const torch::Tensor& x, bool use_sometimes = true) {
    auto y = torch::tanh(one(x));
    if (use_sometimes) y = y + torch::tanh(sometimes(y));
    return two(y);
  }
  torch::nn::Linear one{register_module("one", torch::nn::Linear(7, 31))};
  torch::nn::Linear sometimes{register_module("sometimes", torch::nn::Linear(31, 31))};
  torch::nn::Linear never{register_module("never", torch::nn::Linear(3, 3))};
  torch::nn::Linear two{register_module("two", torch::nn::Linear(31, 5))};
};
TORCH_MODULE(Net);

struct Recipe {
  int stage = 2;
  bool adam = true;
  torch::ScalarType type = torch::kFloat32;
  double clip = 0;
  int passes = 1;
  bool drop_a_part = false;
  std::size_t bucket_bytes = 1024;
  int steps = 30;
};

inline ShardedOptimizer::Maker maker(const Recipe& recipe) {
  return
      [recipe](const ShardedOptimizer::Pieces& pieces) -> std::unique_ptr<torch::optim::Optimizer> {
        if (recipe.adam)
          return std::make_unique<Adam>(pieces.values(), torch::optim::AdamOptions(0.01));
        return std::make_unique<torch::optim::SGD>(pieces.values(),
                                                   torch::optim::SGDOptions(0.1).momentum(0.9));
      };
}

inline torch::Tensor loss_of(Net& net, const Recipe& recipe, int step, int part, int parts) {
  const auto all = torch::sin(torch::arange(kBatch * 7, torch::kFloat64).view({kBatch, 7}) * 0.37 +
                              static_cast<double>(step))
                       .to(recipe.type);
  const auto wanted = torch::cos(all.narrow(1, 0, 5) * 3);
  const std::int64_t own = kBatch / parts;
  const auto out =
      net->forward(all.narrow(0, part * own, own), !recipe.drop_a_part || step % 3 != 1);
  return (out - wanted.narrow(0, part * own, own)).pow(2).mean();
}

inline std::vector<torch::Tensor> values_of(Net& net) {
  std::vector<torch::Tensor> values;
  for (const auto& parameter : net->parameters()) values.push_back(parameter.detach().clone());
  return values;
}

inline void run_step(Net& net, ShardedOptimizer& optimizer, const Recipe& recipe, int step,
                     const World& world) {
  optimizer.zero_grad();
  for (int pass = 0; pass < recipe.passes; ++pass) {
    const int parts = world.size() * recipe.passes;
    (loss_of(net, recipe, step, world.rank() * recipe.passes + pass, parts) / recipe.passes)
        .backward();
  }
  if (recipe.clip > 0) optimizer.clip_grad_norm(recipe.clip);
  optimizer.step();
}

}  // namespace sullae::testing::sharded

// fit() with replicas of the model within a process: what is frozen, or has two names, is trained
// as without them.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>

#include "sullae/torch.h"
#include "sullae/train.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

using namespace train;

// One layer twice, behind one that is not trained. Without libtorch's generator, which ranks'
// threads share.
struct BehindFrozenImpl : torch::nn::Cloneable<BehindFrozenImpl> {
  BehindFrozenImpl() {
    reset();
    const torch::NoGradGuard guard;
    double seed = 0;
    for (auto& parameter : parameters())
      parameter.copy_(
          torch::sin(torch::arange(parameter.numel()) * 0.7 + ++seed).view(parameter.sizes()));
  }
  void reset() override {
    frozen = register_module("frozen", torch::nn::Linear(4, 4));
    twice = register_module("one", torch::nn::Linear(4, 4));
    register_module("other", twice);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return twice(torch::tanh(twice(torch::tanh(frozen(x)))));
  }
  torch::nn::Linear frozen{nullptr};
  torch::nn::Linear twice{nullptr};
};

std::map<std::string, torch::Tensor> trained_with(int scale_up, const World& world) {
  BehindFrozenImpl model;
  for (auto& parameter : model.frozen->parameters()) parameter.set_requires_grad(false);
  const auto x = torch::sin(torch::arange(24 * 4).view({24, 4}) * 0.7);
  TensorData data({x, torch::cos(x * 2)}, {});
  TrainOptions options;
  options.device = "cpu";
  options.epochs = 3;
  options.batch_size = 24;
  options.optimizer = "sgd";
  options.lr = 0.1;
  options.scale_up = scale_up;
  fit(model, Regression(forward_of<BehindFrozenImpl>()), data, options, "frozen", {}, world);
  std::map<std::string, torch::Tensor> weights;
  for (const auto& item : model.named_parameters())
    weights[item.key()] = item.value().detach().clone();
  return weights;
}

TEST(FitReplicas, TrainWhatIsTrainedWithoutThem) {
  std::map<std::string, torch::Tensor> expected;
  run_ranks({.size = 1}, [&](World& world) { expected = trained_with(1, world); });
  const BehindFrozenImpl before;
  EXPECT_TRUE(torch::equal(expected.at("frozen.weight"), before.frozen->weight));
  for (const int size : {1, 2}) {
    run_ranks({.size = size}, [&](World& world) {
      for (const auto& [name, weight] : trained_with(2, world))
        EXPECT_TRUE(torch::allclose(weight, expected.at(name), 1e-5, 1e-6)) << name;
    });
  }
}

}  // namespace
}  // namespace sullae::testing

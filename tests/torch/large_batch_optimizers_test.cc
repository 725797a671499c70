// LARS and LAMB against their papers' formulas, by hand, and what GPUs have of SGD against
// libtorch's.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "sullae/torch/optimizers.h"
#include "torch/sgd.h"

namespace sullae::testing {
namespace {

torch::Tensor parameter(std::vector<std::int64_t> shape, double seed) {
  std::int64_t count = 1;
  for (const auto size : shape) count *= size;
  return torch::sin(torch::arange(count, torch::kFloat64) + seed)
      .view(shape)
      .set_requires_grad(true);
}

TEST(Lars, ScalesTheRateOfEachLayer) {
  auto weight = parameter({3, 4}, 1);
  auto bias = parameter({4}, 2);
  const auto g = torch::cos(torch::arange(12, torch::kFloat64)).view({3, 4});
  const auto old_weight = weight.detach().clone();
  const auto old_bias = bias.detach().clone();
  LARS lars({weight, bias}, torch::optim::SGDOptions(0.5).momentum(0.9).weight_decay(0.01), 0.02);
  torch::Tensor velocity = torch::zeros_like(old_weight);
  torch::Tensor expected = old_weight.clone();
  torch::Tensor expected_bias = old_bias.clone();
  torch::Tensor bias_velocity = torch::zeros_like(old_bias);
  for (int step = 0; step < 3; ++step) {
    weight.mutable_grad() = g.clone();
    bias.mutable_grad() = torch::ones_like(bias);
    lars.step();
    const double w = expected.norm().item<double>();
    const double rate = 0.02 * w / (g.norm().item<double>() + 0.01 * w);
    velocity = 0.9 * velocity + rate * (g + 0.01 * expected);
    expected = expected - 0.5 * velocity;
    bias_velocity = 0.9 * bias_velocity + 1;  // neither scaled nor decayed
    expected_bias = expected_bias - 0.5 * bias_velocity;
  }
  EXPECT_TRUE(torch::allclose(weight, expected, 1e-12, 1e-12));
  EXPECT_TRUE(torch::allclose(bias, expected_bias, 1e-12, 1e-12));
  EXPECT_EQ(static_cast<torch::optim::SGDOptions&>(lars.param_groups()[0].options()).weight_decay(),
            0.01);
}

TEST(Lars, KeepsItsDecayWhereAStepFails) {
  auto weight = parameter({3, 4}, 1);
  auto bias = parameter({4}, 2);
  LARS lars({weight, bias}, torch::optim::SGDOptions(0.5).weight_decay(0.01), 0.02);
  weight.mutable_grad() = torch::ones_like(weight);
  bias.mutable_grad() = torch::ones({3}, torch::kFloat64);
  EXPECT_THROW(lars.step(), c10::Error);
  EXPECT_EQ(static_cast<torch::optim::SGDOptions&>(lars.param_groups()[0].options()).weight_decay(),
            0.01);
}

TEST(Lars, ScalesWhatAClosureComputes) {
  const auto g = torch::cos(torch::arange(12, torch::kFloat64)).view({3, 4});
  const auto stepped = [&](bool by_closure) {
    auto weight = parameter({3, 4}, 1);
    LARS lars({weight}, torch::optim::SGDOptions(0.5).weight_decay(0.01), 0.02);
    const auto compute = [&] {
      weight.mutable_grad() = g.clone();
      return torch::ones({});
    };
    if (by_closure) {
      EXPECT_EQ(lars.step(compute).item<double>(), 1);
      EXPECT_THROW(lars.step([]() -> torch::Tensor { throw std::runtime_error("no loss"); }),
                   std::runtime_error);
    } else {
      compute();
      lars.step();
    }
    EXPECT_EQ(
        static_cast<torch::optim::SGDOptions&>(lars.param_groups()[0].options()).weight_decay(),
        0.01);
    return weight.detach();
  };
  EXPECT_TRUE(torch::equal(stepped(true), stepped(false)));
}

// On the processor, where the operations for many tensors exist too. The second parameter gets its
// first gradient late.
TEST(Sgd, UpdatesParametersTogetherAsOneByOne) {
  for (const auto& [momentum, nesterov, dampening] :
       {std::tuple{0.0, false, 0.0}, {0.9, false, 0.1}, {0.9, true, 0.0}}) {
    const auto options = torch::optim::SGDOptions(0.1)
                             .momentum(momentum)
                             .nesterov(nesterov)
                             .dampening(dampening)
                             .weight_decay(0.01);
    const std::vector<torch::Tensor> together = {parameter({3, 4}, 1), parameter({5}, 2)};
    const std::vector<torch::Tensor> apart = {parameter({3, 4}, 1), parameter({5}, 2)};
    torch::optim::SGD theirs(apart, options);
    std::vector<torch::Tensor> all_momenta(2);
    for (int step = 0; step < 5; ++step) {
      const std::size_t count = step < 2 ? 1 : 2;
      for (const auto* list : {&together, &apart}) {
        for (std::size_t i = 0; i < count; ++i)
          (*list)[i].mutable_grad() = ((*list)[i].detach() * (step + 1)).cos();
      }
      const torch::NoGradGuard guard;
      std::vector<torch::Tensor> momenta(all_momenta.begin(),
                                         all_momenta.begin() + (momentum == 0 ? 0 : count));
      update_together({together.begin(), together.begin() + count}, momenta, options);
      std::ranges::copy(momenta, all_momenta.begin());
      theirs.step();
    }
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(torch::allclose(together[i], apart[i], 1e-12, 1e-12)) << momentum << nesterov;
  }
}

TEST(Lamb, ScalesAdamsUpdateOfEachLayer) {
  auto weight = parameter({3, 4}, 1);
  auto bias = parameter({4}, 2);
  const auto g = torch::cos(torch::arange(12, torch::kFloat64)).view({3, 4});
  torch::Tensor expected = weight.detach().clone();
  torch::Tensor expected_bias = bias.detach().clone();
  LAMB lamb({weight, bias}, torch::optim::AdamWOptions(0.1).weight_decay(0.01));
  torch::Tensor m = torch::zeros_like(expected);
  torch::Tensor v = torch::zeros_like(expected);
  for (int step = 1; step <= 3; ++step) {
    weight.mutable_grad() = g * step;
    bias.mutable_grad() = torch::ones_like(bias);
    lamb.step();
    m = 0.9 * m + 0.1 * g * step;
    v = 0.999 * v + 0.001 * (g * step).square();
    const auto update =
        (m / (1 - std::pow(0.9, step))) / ((v / (1 - std::pow(0.999, step))).sqrt() + 1e-8) +
        0.01 * expected;
    const double trust = expected.norm().item<double>() / update.norm().item<double>();
    expected = expected - 0.1 * trust * update;
    expected_bias = expected_bias - 0.1 / (1 + 1e-8);  // m / sqrt(v) of a constant gradient of one
  }
  EXPECT_TRUE(torch::allclose(weight, expected, 1e-12, 1e-12));
  EXPECT_TRUE(torch::allclose(bias, expected_bias, 1e-9, 1e-9));
}

}  // namespace
}  // namespace sullae::testing

// Servers update as libtorch's optimizers do.
#include "ps/rule.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "sullae/error.h"
#include "support/errors.h"

namespace sullae::ps {
namespace {

struct Case {
  std::string name;
  Rule rule;
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)> make;
};

template <class Optimizer, class Options>
auto maker(Options options) {
  return [options](std::vector<torch::Tensor> tensors) -> std::unique_ptr<torch::optim::Optimizer> {
    return std::make_unique<Optimizer>(std::move(tensors), options);
  };
}

std::vector<Case> cases() {
  using namespace torch::optim;
  return {
      {"sgd", {}, maker<SGD>(SGDOptions(0.1))},
      {"momentum",
       {.weight_decay = 0.01, .momentum = 0.9, .dampening = 0.1},
       maker<SGD>(SGDOptions(0.1).momentum(0.9).dampening(0.1).weight_decay(0.01))},
      {"nesterov",
       {.momentum = 0.9, .nesterov = true},
       maker<SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true))},
      {"adagrad",
       {.kind = Rule::Kind::adagrad,
        .weight_decay = 0.01,
        .eps = 1e-10,
        .learning_rate_decay = 0.1,
        .initial_accumulator = 0.5},
       maker<Adagrad>(
           AdagradOptions(0.1).lr_decay(0.1).weight_decay(0.01).initial_accumulator_value(0.5))},
      {"adam",
       {.kind = Rule::Kind::adam, .weight_decay = 0.01},
       maker<Adam>(AdamOptions(0.1).weight_decay(0.01))},
      {"adamw",
       {.kind = Rule::Kind::adamw, .weight_decay = 0.1, .beta1 = 0.8, .beta2 = 0.9},
       maker<AdamW>(AdamWOptions(0.1).weight_decay(0.1).betas({0.8, 0.9}))},
  };
}

TEST(Rule, UpdatesAsLibtorchDoes) {
  constexpr std::int64_t kElements = 37;
  for (const Case& one : cases()) {
    torch::Tensor expected =
        torch::sin(torch::arange(kElements, torch::kFloat32)).requires_grad_(true);
    const auto optimizer = one.make({expected});
    torch::Tensor values = expected.detach().clone();
    RuleState state = initial_state(one.rule, kElements);
    for (int step = 0; step < 20; ++step) {
      const torch::Tensor gradient = torch::cos(torch::arange(kElements, torch::kFloat32) * step);
      expected.mutable_grad() = gradient.clone();
      optimizer->step();
      const torch::Tensor doubled = gradient * 2;
      update(one.rule, 0.1, state, values.data_ptr<float>(), doubled.data_ptr<float>(), kElements,
             0.5F);
    }
    EXPECT_TRUE(torch::allclose(values, expected.detach(), 1e-5, 1e-6)) << one.name;
  }
}

TEST(Rule, TravelsAsJson) {
  for (const Case& one : cases()) EXPECT_EQ(rule_of(to_json(one.rule)), one.rule);
  auto unknown = to_json(Rule{});
  unknown["kind"] = "lamb";
  EXPECT_EQ(testing::error_of([&] { rule_of(unknown); }),
            "parameter servers have no optimizer 'lamb'");
}

}  // namespace
}  // namespace sullae::ps

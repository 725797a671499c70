// The memory of gradients in a world of one: kept from step to step, and never taken from who still
// holds it.
#include "torch/kept_gradients.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "sullae/torch.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

struct Program {
  explicit Program(World& world) : optimizer(sgd, net->named_parameters(), {}, world) {}
  torch::Tensor loss() { return net->forward(batch).square().sum(); }
  void step() {
    optimizer.zero_grad();
    loss().backward();
    optimizer.step();
  }
  const torch::Tensor& gradient() { return net->weight.grad(); }

  torch::nn::Linear net{4, 5};
  torch::Tensor batch = torch::randn({3, 4});
  torch::optim::SGD sgd{net->parameters(), 0.01};
  DistributedOptimizer optimizer;
};

// Runs `body` on the one rank of a world, after the program's first step.
void alone(const std::function<void(Program&)>& body) {
  run_ranks({.size = 1}, [&](World& world) {
    Program program(world);
    program.step();
    body(program);
  });
}

TEST(KeptGradients, StayWhereTheyAre) {
  alone([](Program& program) {
    const void* const where = program.gradient().data_ptr();
    for (int i = 0; i < 3; ++i) {
      program.step();
      EXPECT_EQ(program.gradient().data_ptr(), where);
    }
  });
}

TEST(KeptGradients, ThatSomebodyHoldsAreLeftToThem) {
  alone([](Program& program) {
    const torch::Tensor held = program.gradient();
    const torch::Tensor before = held.clone();
    program.step();
    EXPECT_NE(program.gradient().data_ptr(), held.data_ptr());
    EXPECT_TRUE(held.equal(before));
    const torch::Tensor seen = program.gradient().detach();  // another tensor of the same memory
    const torch::Tensor then = seen.clone();
    program.step();
    EXPECT_NE(program.gradient().data_ptr(), seen.data_ptr());
    EXPECT_TRUE(seen.equal(then));
  });
}

TEST(KeptGradients, ThatTheUserPutThereStayThere) {
  alone([](Program& program) {
    const torch::Tensor flat = torch::zeros({20});
    program.net->weight.mutable_grad() = flat.view({5, 4});
    program.net->bias.mutable_grad() = torch::zeros({5});
    program.loss().backward();
    EXPECT_EQ(program.gradient().data_ptr(), flat.data_ptr());
    EXPECT_GT(flat.abs().sum().item<float>(), 0);
  });
}

// What cat() gives back are parts of one tensor.
TEST(KeptGradients, ThatShareTheirMemoryAreNotKept) {
  run_ranks({.size = 1}, [](World& world) {
    std::vector<torch::Tensor> parameters;
    torch::OrderedDict<std::string, torch::Tensor> named;
    for (int i = 0; i < 3; ++i) {
      parameters.push_back(torch::ones({4}).requires_grad_());
      named.insert(std::to_string(i), parameters.back());
    }
    torch::optim::SGD sgd(parameters, 0.01);
    DistributedOptimizer optimizer(sgd, named, {}, world);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      torch::cat(parameters).square().sum().backward();
      for (const auto& parameter : parameters) {
        EXPECT_TRUE(parameter.grad().allclose(2 * parameter.detach()));
        EXPECT_EQ(parameter.grad().storage().data(), parameters[0].grad().storage().data());
      }
      optimizer.step();
    }
  });
}

TEST(KeptGradients, WithAGraphKeepIt) {
  alone([](Program& program) {
    program.optimizer.zero_grad();
    program.loss().backward({}, /*retain_graph=*/true, /*create_graph=*/true);
    EXPECT_TRUE(program.gradient().requires_grad());
    // Parameter and gradient hold each other by the graph.
    for (auto& parameter : program.net->parameters()) parameter.mutable_grad() = torch::Tensor();
  });
}

TEST(KeptGradients, OfSeveralBackwardsAddUp) {
  alone([](Program& program) {
    program.optimizer.zero_grad();
    program.loss().backward();
    const auto once = program.gradient().clone();
    program.loss().backward();
    EXPECT_TRUE(program.gradient().allclose(2 * once));
  });
}

}  // namespace
}  // namespace sullae::testing

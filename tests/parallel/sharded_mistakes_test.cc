// What a sharded optimizer says of mistakes, on all ranks.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "parallel/sharded_net.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

using namespace sharded;

TEST(ShardedMistakes, AreTold) {
  run_ranks({.size = 2}, [](World& world) {
    Net net;
    const auto error = [&](const ShardedOptimizer::Maker& make,
                           ShardedOptimizerOptions options = {}) {
      return error_of([&] { ShardedOptimizer(net->named_parameters(), make, options, world); });
    };
    EXPECT_EQ(error(maker({}), {.stage = 3}), "ShardedOptimizer: stage 3, expected 1 or 2");
    EXPECT_TRUE(contains(error([](const auto& pieces) {
                           return std::make_unique<LAMB>(pieces.values(),
                                                         torch::optim::AdamWOptions(0.1));
                         }),
                         "LARS, LAMB and LBFGS need norms of whole tensors"));
    EXPECT_TRUE(contains(error([&](const auto&) {
                           return std::make_unique<torch::optim::SGD>(
                               net->parameters(), torch::optim::SGDOptions(0.1));
                         }),
                         "none of the pieces"));
    EXPECT_TRUE(contains(error([&](const auto& pieces) {
                           return std::make_unique<torch::optim::SGD>(
                               std::vector<torch::Tensor>{pieces.values().front()},
                               torch::optim::SGDOptions(0.1));
                         }),
                         "the optimizer updates 1 of "));
    {
      ShardedOptimizer optimizer(net->named_parameters(), maker({}), {}, world);
      EXPECT_TRUE(contains(error(maker({})), "belongs to another DistributedOptimizer or Sharded"));
      loss_of(net, {}, 0, world.rank(), 2).backward();
      EXPECT_TRUE(contains(error_of([&] { loss_of(net, {}, 1, world.rank(), 2).backward(); }),
                           "got another gradient after those of 1 backward pass"));
    }
  });
  // Different models.
  const auto errors = run_ranks_catching({.size = 2}, [](World& world) {
    torch::nn::Linear net(3, world.rank() + 1);
    ShardedOptimizer(net->named_parameters(), maker({}), {}, world);
  });
  for (const auto& error : errors)
    EXPECT_TRUE(contains(error, "ShardedOptimizer: ranks disagree about the model")) << error;
  run_ranks({.size = 2}, [](World& world) {
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(50, 4).sparse(true));
    ShardedOptimizer optimizer(table->named_parameters(), maker({}), {}, world);
    EXPECT_TRUE(contains(error_of([&] {
                           table(torch::tensor({1, 2})).sum().backward();
                           optimizer.step();
                         }),
                         "parameter 'weight' has a sparse gradient"));
  });
}

// In a world of one, too: what is an error on several ranks is one there.
TEST(ShardedMistakes, OfOneRankAreThoseOfMany) {
  for (const int size : {1, 2}) {
    run_ranks({.size = size}, [&](World& world) {
      Net net;
      net->never->bias.set_requires_grad(false);
      ShardedOptimizer optimizer(net->named_parameters(), maker({}), {}, world);
      run_step(net, optimizer, {}, 0, world);
      optimizer.synchronize();
      EXPECT_TRUE(contains(error_of([&] { loss_of(net, {}, 1, 0, world.size()).backward(); }),
                           "call step() or zero_grad() before"));
      optimizer.zero_grad();
      net->never->bias.set_requires_grad(true);
      net->never->bias.sum().backward();
      EXPECT_TRUE(contains(error_of([&] { optimizer.step(); }),
                           "ShardedOptimizer: parameter 'never.bias' required no gradient when"));
    });
  }
}

TEST(ShardedMistakes, OfOneRankAreToldOnAll) {
  const auto stages = run_ranks_catching({.size = 2}, [](World& world) {
    Net net;
    ShardedOptimizer(net->named_parameters(), maker({}), {.stage = world.rank() + 1}, world);
  });
  for (const auto& error : stages)
    EXPECT_TRUE(contains(error, "made with stage=1") && contains(error, "made with stage=2"))
        << error;
  run_ranks({.size = 3}, [](World& world) {
    Net net;
    ShardedOptimizer optimizer(net->named_parameters(), maker({}), {}, world);
    torch::optim::SGD other(net->parameters(), torch::optim::SGDOptions(0.1));
    Adam fewer(net->one->parameters(), torch::optim::AdamOptions(0.1));
    const auto error = [&](torch::optim::Optimizer* whole) {
      return error_of([&] { optimizer.scatter(whole); });
    };
    EXPECT_TRUE(contains(error(&other), "the optimizer is of another kind"));
    EXPECT_TRUE(contains(error(&fewer), "other groups of parameters"));
    EXPECT_TRUE(contains(error(nullptr), "no optimizer was given on the root"));
    run_step(net, optimizer, {}, 0, world);  // it works as before
  });
}

}  // namespace
}  // namespace sullae::testing

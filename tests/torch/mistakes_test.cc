// What a program of one's own does wrong with gradients and optimizers: the same error on any
// number of ranks, with the cure.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "torch/small_net.h"

namespace sullae::testing {
namespace {

// On one rank as on two.
TEST(Mistakes, AreTheSameErrorOnAnyNumberOfRanks) {
  const Data data;
  for (const int size : {1, 2}) {
    for (const bool first_step : {true, false}) {
      run_ranks({.size = size}, [&](World& world) {
        Trained trained(data, world);
        const auto backward = [&](std::size_t step) {
          trained.loss(part(data.batches[step], world)).backward();
        };
        if (!first_step) {
          backward(0);
          trained.optimizer.step();
          trained.optimizer.zero_grad();
        }
        backward(1);
        {
          const torch::NoGradGuard guard;
          for (auto& parameter : trained.net->parameters()) parameter.mutable_grad().mul_(0.1);
        }
        const auto error = error_of([&] { trained.optimizer.step(); });
        EXPECT_TRUE(contains(error, "was changed between backward() and synchronize()")) << error;
        EXPECT_TRUE(contains(error, "call synchronize() first, then clip")) << error;
        trained.optimizer.zero_grad();
        backward(2);
        trained.optimizer.step();
      });
    }
    run_ranks({.size = size}, [&](World& world) {
      Trained trained(data, world, small_buckets(ReduceOp::adasum));
      for (int step = 0; step < 2; ++step) {
        trained.optimizer.zero_grad();
        trained.loss(part(data.batches[0], world)).backward();
        const auto error = error_of([&] { trained.loss(part(data.batches[1], world)).backward(); });
        EXPECT_TRUE(contains(error, "which op adasum cannot add to: call zero_grad()")) << error;
        trained.optimizer.zero_grad();
        trained.loss(part(data.batches[0], world)).backward();
        trained.optimizer.step();
      }
    });
  }
}

TEST(Mistakes, OptimizersMustCoverTheirParametersAndShareNone) {
  const Data data;
  for (const int size : {1, 2}) {
    run_ranks({.size = size}, [&](World& world) {
      auto net = data.clone();
      torch::optim::SGD sgd(net->parameters(), 0.1);
      auto some = net->named_parameters();
      torch::OrderedDict<std::string, torch::Tensor> fewer;
      for (std::size_t i = 0; i + 1 < some.size(); ++i)
        fewer.insert(some[i].key(), some[i].value());
      auto error = error_of([&] { DistributedOptimizer(sgd, fewer, {}, world); });
      EXPECT_TRUE(contains(error, "the optimizer updates 1 more parameter (the first [1])"))
          << error;
      auto more = net->named_parameters();
      more.insert("extra", torch::ones({5, 5}, torch::kFloat64).requires_grad_());
      error = error_of([&] { DistributedOptimizer(sgd, more, {}, world); });
      EXPECT_TRUE(contains(error, "parameter 'extra' [5, 5] is none that the optimizer updates"))
          << error;
      // Of another model that is built equally.
      const auto other = data.clone();
      error = error_of([&] { DistributedOptimizer(sgd, other->named_parameters(), {}, world); });
      EXPECT_TRUE(
          contains(error, "parameter '0.weight' [16, 4] is none that the optimizer updates"))
          << error;
      const DistributedOptimizer first(sgd, net->named_parameters(), {}, world);
      error = error_of([&] { DistributedOptimizer(sgd, net->named_parameters(), {}, world); });
      EXPECT_TRUE(contains(error, "parameter '0.weight' belongs to another DistributedOptimizer"))
          << error;
      EXPECT_TRUE(contains(error, "into one optimizer, as groups")) << error;
    });
  }
}

TEST(Mistakes, ADifferentNumberOfBackwardPassesIsToldToAll) {
  const Data data;
  run_ranks({.size = 2}, [&](World& world) {
    Trained trained(data, world);
    std::string error;
    for (std::size_t step = 0; step < 4 && error.empty(); ++step) {
      try {
        trained.optimizer.zero_grad();
        trained.loss(part(data.batches[step], world)).backward();
        if (step == 2 && world.rank() == 1) {
          trained.optimizer.zero_grad();
          trained.loss(part(data.batches[step], world)).backward();
        }
        trained.optimizer.step();
      } catch (const MismatchError& mismatch) {
        error = mismatch.what();
      }
    }
    EXPECT_TRUE(contains(error, "4.weight' of plan")) << error;
    EXPECT_TRUE(contains(error, "once more (1)")) << error;
    EXPECT_TRUE(contains(error, "run backward() and clear gradients equally often")) << error;
  });
}

TEST(Mistakes, GroupsThatAreAddedLaterAreNotLeftBehindSilently) {
  const Data data;
  for (const int size : {1, 2}) {
    run_ranks({.size = size}, [&](World& world) {
      Trained trained(data, world);
      trained.loss(part(data.batches[0], world)).backward();
      trained.optimizer.step();
      trained.sgd.add_param_group(
          torch::optim::OptimizerParamGroup({torch::ones({2}, torch::kFloat64).requires_grad_()}));
      const auto error = error_of([&] { trained.optimizer.step(); });
      EXPECT_TRUE(contains(error, "the optimizer updates 7 parameters, but 6 when this was made"))
          << error;
      EXPECT_TRUE(contains(error, "after the last add_param_group()")) << error;
    });
  }
}

}  // namespace
}  // namespace sullae::testing

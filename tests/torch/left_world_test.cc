// Optimizers whose world was left: an error with the cure, on one rank as on many, and no meeting
// with nobody.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "torch/small_net.h"

namespace sullae::testing {
namespace {

constexpr const char* kCure = "make it anew after init()";

TEST(LeftWorld, StepsAreRefusedWithTheCure) {
  const Data data;
  for (const int size : {1, 2, 3}) {
    for (const bool gradients_under_way : {false, true}) {
      run_ranks({.size = size}, [&](World& world) {
        Trained trained(data, world);
        for (int step = 0; step < 3; ++step) {
          trained.loss(part(data.batches[0], world)).backward();
          trained.optimizer.step();
          trained.optimizer.zero_grad();
        }
        if (gradients_under_way) trained.loss(part(data.batches[1], world)).backward();
        world.leave();
        for (int tries = 0; tries < 2; ++tries) {
          auto error = error_of([&] { trained.optimizer.step(); });
          EXPECT_TRUE(contains(error, kCure)) << error;
          error = error_of([&] { trained.optimizer.synchronize(); });
          EXPECT_TRUE(contains(error, kCure)) << error;
        }
        trained.optimizer.zero_grad();
        if (size == 1) return;
        // Whose hooks find that nobody is there.
        const auto error = error_of([&] { trained.loss(part(data.batches[1], world)).backward(); });
        EXPECT_TRUE(contains(error, "this rank has left the world")) << error;
      });
    }
  }
}

TEST(LeftWorld, AnotherOptimizerGoesOnInTheNextWorld) {
  const Data data;
  expect_as_in_one_process([&](World& world) {
    auto net = data.clone();
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    const auto train = [&](const World& in) {
      DistributedOptimizer optimizer(sgd, net->named_parameters(), small_buckets(), in);
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        net->forward(part(data.batches[static_cast<std::size_t>(step)], in))
            .pow(2)
            .mean()
            .backward();
        optimizer.step();
      }
    };
    std::vector<int> all(static_cast<std::size_t>(world.size()));
    std::iota(all.begin(), all.end(), 0);
    const auto first = world.process_set(all);
    const auto next = world.process_set(all);
    train(*first);
    first->leave();
    train(*next);
    return copy_of(net->parameters());
  });
}

// An optimizer and a graph keep the set that they were made for.
TEST(LeftWorld, AProcessSetLivesAsLongAsWhatWasMadeFromIt) {
  const Data data;
  run_ranks({.size = 2}, [&](World& world) {
    torch::nn::BatchNorm2d norm(torch::nn::BatchNorm2dOptions(2));
    torch::Tensor loss;
    std::unique_ptr<Trained> trained;
    {
      auto set = world.process_set({0, 1});
      trained = std::make_unique<Trained>(data, *set);
      loss = sync_batch_norm(torch::randn({3, 2, 4, 4}), *norm, *set).pow(3).sum();
    }
    for (int step = 0; step < 3; ++step) {
      trained->optimizer.zero_grad();
      trained->loss(part(data.batches[0], world)).backward();
      trained->optimizer.step();
    }
    loss.backward();
    EXPECT_TRUE(norm->weight.grad().defined());
  });
}

}  // namespace
}  // namespace sullae::testing

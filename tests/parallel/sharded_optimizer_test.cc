// What a sharded optimizer trains is what one process trains.
#include "sullae/parallel/sharded_optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "parallel/sharded_net.h"
#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using namespace sharded;

// One process, whole batches.
std::vector<torch::Tensor> trained_alone(const Recipe& recipe) {
  Net net(recipe.type);
  const auto optimizer = maker(recipe)(net->named_parameters());
  for (int step = 0; step < recipe.steps; ++step) {
    net->zero_grad(/*set_to_none=*/true);
    loss_of(net, recipe, step, 0, 1).backward();
    if (recipe.clip > 0) torch::nn::utils::clip_grad_norm_(net->parameters(), recipe.clip);
    optimizer->step();
  }
  return values_of(net);
}

std::vector<torch::Tensor> trained_sharded(const Recipe& recipe, const World& world) {
  Net net(recipe.type);
  ShardedOptimizer optimizer(net->named_parameters(), maker(recipe),
                             {.stage = recipe.stage,
                              .backward_passes_per_step = recipe.passes,
                              .bucket_bytes = recipe.bucket_bytes},
                             world);
  for (int step = 0; step < recipe.steps; ++step) run_step(net, optimizer, recipe, step, world);
  return values_of(net);
}

double difference(const std::vector<torch::Tensor>& one, const std::vector<torch::Tensor>& other) {
  double most = 0;
  EXPECT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i)
    most = std::max(most, (one[i] - other[i]).abs().max().item<double>());
  return most;
}

class Sharded : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(InBothStages, Sharded, ::testing::Values(1, 2));

TEST_P(Sharded, TrainsWhatOneProcessTrains) {
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    for (const bool adam : {false, true}) {
      Recipe recipe{
          .stage = GetParam(), .adam = adam, .type = type, .drop_a_part = true, .steps = 100};
      const auto expected = trained_alone(recipe);
      const double most = type == torch::kFloat64 ? 1e-10 : 1e-6;
      for (const int size : {1, 2, 3, 4}) {
        run_ranks({.size = size}, [&](World& world) {
          EXPECT_LT(difference(trained_sharded(recipe, world), expected), most) << size << adam;
        });
      }
    }
  }
}

// Each would go on with its own part of what differs.
TEST_P(Sharded, BeginsAsRankZero) {
  const Recipe recipe{.stage = GetParam(), .steps = 3};
  const auto expected = trained_alone(recipe);
  run_ranks({.size = 2}, [&](World& world) {
    Net net;
    if (world.rank() != 0) {
      const torch::NoGradGuard guard;
      for (auto& parameter : net->parameters()) parameter.fill_(world.rank());
    }
    ShardedOptimizer optimizer(net->named_parameters(), maker(recipe), {.stage = recipe.stage},
                               world);
    for (int step = 0; step < recipe.steps; ++step) run_step(net, optimizer, recipe, step, world);
    EXPECT_LT(difference(values_of(net), expected), 1e-6);
  });
}

TEST_P(Sharded, IsTheUnshardedToTheBitOnTwoRanks) {
  const Recipe recipe{.stage = GetParam()};
  run_ranks({.size = 2}, [&](World& world) {
    Net net;
    const auto inner = maker(recipe)(net->named_parameters());
    DistributedOptimizer optimizer(*inner, net->named_parameters(),
                                   {.bucket_bytes = recipe.bucket_bytes}, world);
    for (int step = 0; step < recipe.steps; ++step) {
      optimizer.zero_grad();
      loss_of(net, recipe, step, world.rank(), 2).backward();
      optimizer.step();
    }
    EXPECT_EQ(difference(trained_sharded(recipe, world), values_of(net)), 0);
  });
}

TEST_P(Sharded, ClipsByTheNormOfAllParameters) {
  const Recipe recipe{.stage = GetParam(), .adam = false, .type = torch::kFloat64, .clip = 0.05};
  const auto expected = trained_alone(recipe);
  run_ranks({.size = 3}, [&](World& world) {
    EXPECT_LT(difference(trained_sharded(recipe, world), expected), 1e-10);
  });
}

TEST_P(Sharded, AddsUpSeveralPasses) {
  Recipe recipe{.stage = GetParam(), .type = torch::kFloat64, .passes = 3};
  const auto expected = trained_alone(recipe);
  run_ranks({.size = 2}, [&](World& world) {
    EXPECT_LT(difference(trained_sharded(recipe, world), expected), 1e-10);
  });
}

TEST_P(Sharded, WorksOverEveryTransportAndWithBucketsOfAnySize) {
  for (const Setting& setting : every_setting()) {
    if (kBatch % setting.ranks.size != 0) continue;
    for (const std::size_t bucket_bytes : {std::size_t{1}, std::size_t{1} << 22}) {
      const Recipe recipe{
          .stage = GetParam(), .type = torch::kFloat64, .bucket_bytes = bucket_bytes, .steps = 3};
      const auto expected = trained_alone(recipe);
      run_ranks(setting.ranks, [&](World& world) {
        EXPECT_LT(difference(trained_sharded(recipe, world), expected), 1e-10) << setting.name;
      });
    }
  }
}

// bfloat16 keeps 8 bits: steps of 0.01 would be lost in weights of 16 bits.
TEST_P(Sharded, UpdatesWeightsOf16BitsIn32) {
  const Recipe recipe{.stage = GetParam(), .type = torch::kBFloat16};
  std::vector<std::vector<torch::Tensor>> trained(3);
  for (const int size : {1, 3}) {
    run_ranks({.size = size}, [&](World& world) {
      Net net(recipe.type);
      ShardedOptimizer optimizer(net->named_parameters(), maker(recipe),
                                 {.stage = recipe.stage, .bucket_bytes = 512}, world);
      for (int step = 0; step < recipe.steps; ++step) run_step(net, optimizer, recipe, step, world);
      const auto masters = optimizer.master_weights();
      EXPECT_EQ(masters.size(), world.rank() == 0 ? net->parameters().size() : 0U);
      if (world.rank() != 0) return;
      auto& own = trained[static_cast<std::size_t>(size - 1)];
      for (const auto& item : net->named_parameters()) {
        own.push_back(masters.at(item.key()).detach());
        EXPECT_TRUE(torch::equal(own.back().to(torch::kBFloat16), item.value().detach()));
      }
    });
  }
  EXPECT_LT(difference(trained[0], trained[2]), 0.05);
}

TEST(ShardedState, IsSavedWholeAndLoadedOnAnyNumberOfRanks) {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "checkpoint";
  Recipe recipe{.type = torch::kFloat64, .drop_a_part = true, .steps = 20};
  const auto expected = trained_alone(recipe);
  for (const bool adam : {true, false}) {
    recipe.adam = adam;
    const auto whole_run = trained_alone(recipe);
    run_ranks({.size = 4}, [&](World& world) {
      Net net(recipe.type);
      ShardedOptimizer optimizer(net->named_parameters(), maker(recipe), {.bucket_bytes = 700},
                                 world);
      for (int step = 0; step < 9; ++step) run_step(net, optimizer, recipe, step, world);
      const auto whole = optimizer.gather();
      EXPECT_EQ(whole.optimizer == nullptr, world.rank() != 0);
      EXPECT_TRUE(whole.weights.empty());
      if (whole.optimizer) save_checkpoint(file, *net, whole.optimizer.get());
    });
    for (const int size : {1, 2, 3, 5}) {
      run_ranks({.size = size}, [&](World& world) {
        Net net(recipe.type);
        std::unique_ptr<torch::optim::Optimizer> whole;
        if (world.rank() == 0) {
          whole = maker(recipe)(net->named_parameters());
          load_checkpoint(file, *net, whole.get());
        }
        broadcast_parameters(*net, 0, world);
        ShardedOptimizer optimizer(net->named_parameters(), maker(recipe), {.stage = 1}, world);
        optimizer.scatter(whole.get());
        for (int step = 9; step < recipe.steps; ++step)
          run_step(net, optimizer, recipe, step, world);
        EXPECT_LT(difference(values_of(net), whole_run), 1e-10) << size << " " << adam;
      });
    }
    // And by who knows nothing of shards.
    Net net(recipe.type);
    const auto optimizer = maker(recipe)(net->named_parameters());
    load_checkpoint(file, *net, optimizer.get());
    for (int step = 9; step < recipe.steps; ++step) {
      net->zero_grad(/*set_to_none=*/true);
      loss_of(net, recipe, step, 0, 1).backward();
      optimizer->step();
    }
    EXPECT_LT(difference(values_of(net), whole_run), 1e-10) << adam;
  }
}

// Nothing, a number without dimensions, and fewer numbers than ranks.
struct OddImpl : torch::nn::Module {
  torch::Tensor none = register_parameter("none", torch::zeros({0, 3}));
  torch::Tensor scale = register_parameter("scale", torch::full({}, 0.5));
  torch::Tensor two = register_parameter("two", torch::ones({2}));
};
TORCH_MODULE(Odd);

TEST(ShardedParameters, MayHaveAnyShape) {
  for (const int stage : {1, 2}) {
    std::vector<std::vector<torch::Tensor>> trained(6);
    for (const int size : {1, 2, 5}) {
      run_ranks({.size = size}, [&](World& world) {
        Odd odd;
        ShardedOptimizer optimizer(odd->named_parameters(), maker({}), {.stage = stage}, world);
        for (int step = 0; step < 3; ++step) {
          optimizer.zero_grad();
          (odd->scale * odd->two.square().sum() + odd->none.sum()).backward();
          optimizer.step();
        }
        const auto whole = optimizer.gather();
        optimizer.scatter(whole.optimizer.get());
        if (world.rank() == 0)
          for (const auto& parameter : odd->parameters())
            trained[static_cast<std::size_t>(size)].push_back(parameter.detach().clone());
      });
    }
    for (const std::size_t size : {std::size_t{2}, std::size_t{5}}) {
      ASSERT_EQ(trained[size].size(), 3U);
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_TRUE(torch::equal(trained[size][i], trained[1][i])) << size << " " << i;
    }
  }
}

// As a generator's loss reaches the discriminator's parameters.
TEST(ShardedParameters, TakeWeightsThatLieOtherwiseInMemory) {
  run_ranks({.size = 2}, [](World& world) {
    torch::nn::Conv2d conv(torch::nn::Conv2dOptions(3, 5, {2, 3}));
    torch::OrderedDict<std::string, torch::Tensor> weights;
    for (const auto& item : conv->named_parameters())
      weights.insert(
          item.key(),
          torch::arange(item.value().numel()).to(torch::kFloat32).view_as(item.value()) / 1024 + 1);
    conv->to(torch::kBFloat16);
    conv->weight.set_data(conv->weight.contiguous(torch::MemoryFormat::ChannelsLast));
    ShardedOptimizer optimizer(conv->named_parameters(), maker({}), {.stage = 1}, world);
    optimizer.take_weights(weights);
    const auto taken = optimizer.master_weights();
    if (world.rank() == 0) {
      for (const auto& item : weights)
        EXPECT_TRUE(torch::equal(taken.at(item.key()), item.value())) << item.key();
    }
    weights["bias"] = torch::zeros({4});
    EXPECT_EQ(error_of([&] { optimizer.take_weights(weights); }),
              "take_weights: 'bias' is [4], expected [5] as the parameter");
  });
}

TEST(ShardedGradients, OfTwoOptimizersDoNotMix) {
  const auto run = [](World* world) {
    Net one(torch::kFloat64);
    Net other(torch::kFloat64);
    const World alone = world != nullptr ? *world : World::create({});
    ShardedOptimizer of_one(one->named_parameters(), maker({}), {.bucket_bytes = 512}, alone);
    ShardedOptimizer of_other(other->named_parameters(), maker({}), {.bucket_bytes = 512}, alone);
    const Recipe recipe{.type = torch::kFloat64};
    for (int step = 0; step < 5; ++step) {
      of_one.zero_grad();
      loss_of(one, recipe, step, alone.rank(), alone.size()).backward();
      of_one.step();
      of_other.zero_grad();
      (loss_of(other, recipe, step + 9, alone.rank(), alone.size()) +
       loss_of(one, recipe, step, alone.rank(), alone.size()))
          .backward();
      of_other.step();
    }
    auto values = values_of(one);
    for (const auto& value : values_of(other)) values.push_back(value);
    return values;
  };
  const auto expected = run(nullptr);
  run_ranks({.size = 3},
            [&](World& world) { EXPECT_LT(difference(run(&world), expected), 1e-10); });
}

// A backward that is thrown away, and one that follows.
TEST(ShardedGradients, CanBeThrownAway) {
  const Recipe recipe{.type = torch::kFloat64, .steps = 3};
  const auto expected = trained_alone(recipe);
  run_ranks({.size = 2}, [&](World& world) {
    Net net(recipe.type);
    ShardedOptimizer optimizer(net->named_parameters(), maker(recipe), {.bucket_bytes = 512},
                               world);
    for (int step = 0; step < recipe.steps; ++step) {
      loss_of(net, recipe, step + 7, world.rank(), 2).backward();
      run_step(net, optimizer, recipe, step, world);
    }
    EXPECT_LT(difference(values_of(net), expected), 1e-10);
  });
}

}  // namespace
}  // namespace sullae::testing

// What a sharded optimizer trains is what one process trains.
#include "sullae/parallel/sharded_optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

constexpr std::int64_t kBatch = 60;  // divisible by 1 to 6 ranks

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

ShardedOptimizer::Maker maker(const Recipe& recipe) {
  return
      [recipe](const ShardedOptimizer::Pieces& pieces) -> std::unique_ptr<torch::optim::Optimizer> {
        if (recipe.adam)
          return std::make_unique<Adam>(pieces.values(), torch::optim::AdamOptions(0.01));
        return std::make_unique<torch::optim::SGD>(pieces.values(),
                                                   torch::optim::SGDOptions(0.1).momentum(0.9));
      };
}

torch::Tensor loss_of(Net& net, const Recipe& recipe, int step, int part, int parts) {
  const auto all = torch::sin(torch::arange(kBatch * 7, torch::kFloat64).view({kBatch, 7}) * 0.37 +
                              static_cast<double>(step))
                       .to(recipe.type);
  const auto wanted = torch::cos(all.narrow(1, 0, 5) * 3);
  const std::int64_t own = kBatch / parts;
  const auto out =
      net->forward(all.narrow(0, part * own, own), !recipe.drop_a_part || step % 3 != 1);
  return (out - wanted.narrow(0, part * own, own)).pow(2).mean();
}

std::vector<torch::Tensor> values_of(Net& net) {
  std::vector<torch::Tensor> values;
  for (const auto& parameter : net->parameters()) values.push_back(parameter.detach().clone());
  return values;
}

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

void run_step(Net& net, ShardedOptimizer& optimizer, const Recipe& recipe, int step,
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
      Recipe recipe{.stage = GetParam(), .adam = adam, .type = type, .drop_a_part = true};
      const auto expected = trained_alone(recipe);
      const double most = type == torch::kFloat64 ? 1e-10 : 2e-5;
      for (const int size : {1, 2, 3, 4}) {
        run_ranks({.size = size}, [&](World& world) {
          EXPECT_LT(difference(trained_sharded(recipe, world), expected), most) << size << adam;
        });
      }
    }
  }
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

// A model that is whole on no rank trains as one process's does.
#include "sullae/parallel/sharded_units.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <map>

#include "sullae/parallel/mesh.h"
#include "sullae/parallel/sharded_optimizer.h"
#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

constexpr std::int64_t kBatch = 120;  // divisible by 1 to 6 ranks, and by 2 passes of 4
constexpr std::int64_t kSize = 13;

// With a parameter that gets a gradient now and then, and one that gets none.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int number, torch::ScalarType type) {
    to(type);
    const torch::NoGradGuard guard;
    double seed = number;
    // Without libtorch's generator, which threads would share.
    for (auto& parameter : parameters()) {
      const auto flat = torch::arange(parameter.numel(), torch::kFloat64);
      seed += 1.7;
      parameter.copy_((torch::sin(flat * 12.9898 + seed) * 0.3).view(parameter.sizes()));
    }
  }
  torch::Tensor forward(const torch::Tensor& x, bool use_sometimes = true) {
    auto y = torch::tanh(one(x));
    if (use_sometimes) y = y + torch::tanh(sometimes(y));
    return x + two(y);
  }
  torch::nn::Linear one{register_module("one", torch::nn::Linear(kSize, 31))};
  torch::nn::Linear sometimes{register_module("sometimes", torch::nn::Linear(31, 31))};
  torch::nn::Linear never{register_module("never", torch::nn::Linear(3, 3))};
  torch::nn::Linear two{register_module("two", torch::nn::Linear(31, kSize))};
};
TORCH_MODULE(Block);

struct Recipe {
  torch::ScalarType type = torch::kFloat32;
  double clip = 0;
  int passes = 1;
  bool drop_a_part = false;
  /// The second block runs twice.
  bool again = false;
  int blocks = 4;
  int steps = 20;
};

ShardedOptimizer::Maker adam() {
  return [](const ShardedOptimizer::Pieces& pieces) {
    // What is nearly nothing, and mostly rounding, is not to be made large.
    return std::make_unique<Adam>(pieces.values(), torch::optim::AdamOptions(0.002).eps(1e-3));
  };
}

template <class Call>
torch::Tensor loss_of(const Call& block, const Recipe& recipe, int step, int part, int parts) {
  const auto all =
      torch::sin(torch::arange(kBatch * kSize, torch::kFloat64).view({kBatch, kSize}) * 0.37 +
                 static_cast<double>(step))
          .to(recipe.type);
  const std::int64_t own = kBatch / parts;
  const auto input = all.narrow(0, part * own, own);
  auto x = input;
  for (int i = 0; i < recipe.blocks; ++i) {
    x = block(i, x, !recipe.drop_a_part || (step + i) % 3 != 1);
    if (recipe.again && i == 2) x = block(1, x, true);
  }
  return (x - torch::cos(input * 3)).pow(2).mean();
}

using Weights = std::map<std::string, torch::Tensor>;

Weights trained_alone(const Recipe& recipe) {
  std::vector<Block> blocks;
  torch::OrderedDict<std::string, torch::Tensor> parameters;
  for (int i = 0; i < recipe.blocks; ++i) {
    blocks.emplace_back(i, recipe.type);
    for (const auto& item : blocks.back()->named_parameters())
      parameters.insert(std::to_string(i) + '.' + item.key(), item.value());
  }
  const auto optimizer = adam()(parameters);
  const auto block = [&](int i, const torch::Tensor& x, bool use) {
    return blocks[static_cast<std::size_t>(i)]->forward(x, use);
  };
  for (int step = 0; step < recipe.steps; ++step) {
    for (auto& parameter : parameters.values()) parameter.mutable_grad() = torch::Tensor();
    loss_of(block, recipe, step, 0, 1).backward();
    if (recipe.clip > 0) torch::nn::utils::clip_grad_norm_(parameters.values(), recipe.clip);
    optimizer->step();
  }
  Weights weights;
  for (const auto& item : parameters) weights[item.key()] = item.value().detach().clone();
  return weights;
}

struct Model {
  Model(const Recipe& recipe, const World& world) : Model(recipe, world, World::create({})) {}
  Model(const Recipe& recipe, const World& world, const World& replicas) : units(world, replicas) {
    for (int i = 0; i < recipe.blocks; ++i)
      blocks.push_back(units.shard(Block(i, recipe.type), std::to_string(i)));
  }
  torch::Tensor loss(const Recipe& recipe, int step, int part, int parts) {
    return loss_of([&](int i, const torch::Tensor& x,
                       bool use) { return blocks[static_cast<std::size_t>(i)](x, use); },
                   recipe, step, part, parts);
  }
  ShardedUnits units;
  std::vector<ShardedUnit<BlockImpl>> blocks;
};

// On rank 0.
Weights trained_in_units(const Recipe& recipe, const World& world) {
  Model model(recipe, world);
  ShardedOptimizer optimizer(model.units, adam());
  for (int step = 0; step < recipe.steps; ++step) {
    optimizer.zero_grad();
    for (int pass = 0; pass < recipe.passes; ++pass) {
      const int parts = world.size() * recipe.passes;
      (model.loss(recipe, step, world.rank() * recipe.passes + pass, parts) / recipe.passes)
          .backward();
    }
    if (recipe.clip > 0) optimizer.clip_grad_norm(recipe.clip);
    optimizer.step();
    if (step % 7 == 3) {  // evaluation, in between
      const torch::NoGradGuard guard;
      EXPECT_TRUE(std::isfinite(model.loss(recipe, step, 0, 1).item<double>()));
    }
  }
  auto whole = optimizer.gather();
  if (world.size() > 1) return whole.weights;
  Weights weights;
  for (int i = 0; i < recipe.blocks; ++i) {
    for (const auto& item : model.blocks[static_cast<std::size_t>(i)].module()->named_parameters())
      weights[std::to_string(i) + '.' + item.key()] = item.value().detach().clone();
  }
  return weights;
}

void expect_close(const Weights& weights, const Weights& expected, double tolerance) {
  ASSERT_EQ(weights.size(), expected.size());
  for (const auto& [name, value] : expected)
    EXPECT_LE((weights.at(name) - value).abs().max().item<double>(), tolerance) << name;
}

TEST(ShardedUnits, TrainWhatOneProcessTrains) {
  const std::vector<Recipe> recipes = {
      {},
      {.type = torch::kFloat64},
      {.type = torch::kFloat64, .clip = 0.05},
      {.type = torch::kFloat64, .passes = 2},
      {.type = torch::kFloat64, .drop_a_part = true},
      {.type = torch::kFloat64, .again = true},
      {.type = torch::kFloat64, .blocks = 1},
      {.steps = 100},
  };
  for (const Recipe& recipe : recipes) {
    const Weights alone = trained_alone(recipe);
    for (const int size : {1, 2, 3, 4}) {
      run_ranks({.size = size}, [&](World& world) {
        SCOPED_TRACE(::testing::Message() << &recipe - recipes.data() << " on " << size);
        const Weights weights = trained_in_units(recipe, world);
        if (world.rank() == 0)
          expect_close(weights, alone, recipe.type == torch::kFloat64 ? 1e-10 : 2e-6);
      });
    }
  }
}

TEST(ShardedUnits, TrainTheSameOverEveryTransport) {
  const Recipe recipe{.type = torch::kFloat64, .drop_a_part = true, .steps = 6};
  const Weights alone = trained_alone(recipe);
  for (const auto& setting : every_setting()) {
    SCOPED_TRACE(setting.name);
    run_ranks(setting.ranks, [&](World& world) {
      const Weights weights = trained_in_units(recipe, world);
      if (world.rank() == 0) expect_close(weights, alone, 1e-10);
    });
  }
}

// What is updated in 16 bits drifts by less than they can show.
TEST(ShardedUnits, KeepMastersOfSixteenBits) {
  const Recipe recipe{.type = torch::kBFloat16, .steps = 10};
  for (const int size : {1, 2}) {
    run_ranks({.size = size}, [&](World& world) {
      Model model(recipe, world);
      ShardedOptimizer optimizer(model.units, adam());
      const Weights before = optimizer.master_weights();
      for (int step = 0; step < recipe.steps; ++step) {
        optimizer.zero_grad();
        model.loss(recipe, step, world.rank(), world.size()).backward();
        optimizer.step();
      }
      const Weights after = optimizer.master_weights();
      if (world.rank() != 0) return;
      for (const auto& [name, value] : after) {
        EXPECT_EQ(value.scalar_type(), torch::kFloat32);
        const bool trained = name.find("never") == std::string::npos;
        EXPECT_EQ(torch::equal(value, before.at(name)), !trained) << name;
      }
    });
  }
}

// A parameter is nowhere but while its unit runs.
TEST(ShardedUnits, LetGoOfParametersBetween) {
  run_ranks({.size = 2}, [](World& world) {
    const Recipe recipe{.steps = 1};
    Model model(recipe, world);
    ShardedOptimizer optimizer(model.units, adam());
    const auto here = [&] {
      int count = 0;
      for (const auto& block : model.blocks) {
        for (const auto& parameter : block.module()->parameters())
          count += parameter.storage().data() != nullptr ? 1 : 0;
      }
      return count;
    };
    const int a_unit = 8;
    EXPECT_EQ(here(), 0);
    for (int step = 0; step < 3; ++step) {
      const auto loss = model.loss(recipe, step, 0, 1);
      EXPECT_LE(here(), a_unit);  // the last one waits for backward
      loss.backward();
      EXPECT_LE(here(), a_unit);  // the first one's input needs no gradient
      optimizer.step();
      optimizer.zero_grad();
      EXPECT_EQ(here(), 0);
    }
  });
}

TEST(ShardedUnits, CheckpointsFitAnyNumberOfRanksAndOneProcess) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "model.pt";
  const Recipe recipe{.type = torch::kFloat64, .blocks = 1, .steps = 5};
  const auto go_on = [&](Model& model, ShardedOptimizer& optimizer, const World& world) {
    for (int step = 5; step < 10; ++step) {
      optimizer.zero_grad();
      model.loss(recipe, step, world.rank(), world.size()).backward();
      optimizer.step();
    }
    return optimizer.master_weights();
  };
  Weights expected;
  run_ranks({.size = 3}, [&](World& world) {
    Model model(recipe, world);
    ShardedOptimizer optimizer(model.units, adam());
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      model.loss(recipe, step, world.rank(), world.size()).backward();
      optimizer.step();
    }
    const auto whole = optimizer.gather();
    if (world.rank() == 0) {
      Weights weights;
      for (const auto& [name, value] : whole.weights) weights[name.substr(2)] = value;
      save_checkpoint(file, *model.blocks[0].module(), whole.optimizer.get(), {.weights = weights});
    }
    const Weights after = go_on(model, optimizer, world);
    if (world.rank() == 0) expected = after;
  });
  run_ranks({.size = 2}, [&](World& world) {
    Block alone(7, recipe.type);
    const auto optimizer_of_all = adam()(alone->named_parameters());
    load_checkpoint(file, *alone, optimizer_of_all.get());
    torch::OrderedDict<std::string, torch::Tensor> whole;
    for (const auto& item : alone->named_parameters())
      whole.insert("0." + item.key(), item.value());
    Model model(recipe, world);
    ShardedOptimizer optimizer(model.units, adam());
    optimizer.take_weights(whole);
    optimizer.scatter(optimizer_of_all.get());
    const Weights after = go_on(model, optimizer, world);
    if (world.rank() == 0) expect_close(after, expected, 1e-10);
  });
}

// Divided within a host, and averaged between hosts.
TEST(ShardedUnits, HaveReplicas) {
  const Recipe recipe{.type = torch::kFloat64, .clip = 0.05, .drop_a_part = true, .steps = 10};
  const Weights alone = trained_alone(recipe);
  for (const auto& hosts : {std::vector<int>{}, std::vector<int>{2, 2}}) {
    for (const int replicas : {1, 2, 4}) {
      run_ranks({.size = 4, .hosts = hosts}, [&](World& world) {
        const Mesh mesh(world, {{"replicas", replicas}, {"shard", 4 / replicas}});
        Model model(recipe, mesh["shard"], mesh["replicas"]);
        ShardedOptimizer optimizer(model.units, adam());
        for (int step = 0; step < recipe.steps; ++step) {
          optimizer.zero_grad();
          model.loss(recipe, step, world.rank(), world.size()).backward();
          optimizer.clip_grad_norm(recipe.clip);
          optimizer.step();
        }
        const Weights weights = optimizer.gather().weights;
        if (mesh["shard"].rank() == 0) expect_close(weights, alone, 1e-10);
      });
    }
  }
}

// As libtorch does where an optimizer has changed a weight.
TEST(ShardedUnits, RefuseBackwardWithOtherWeightsThanForward) {
  run_ranks({.size = 2}, [](World& world) {
    const Recipe recipe{.blocks = 2};
    Model model(recipe, world);
    ShardedOptimizer optimizer(model.units, adam());
    const auto loss = model.loss(recipe, 0, 0, 1);
    model.loss(recipe, 0, 0, 1).backward();
    optimizer.step();
    try {
      loss.backward();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const c10::Error& error) {
      EXPECT_TRUE(contains(error.what(), "modified by an inplace operation")) << error.what();
    }
  });
}

TEST(ShardedUnits, GiveWhatMayBeChangedInPlace) {
  run_ranks({.size = 2}, [](World& world) {
    const Recipe recipe{.blocks = 2};
    Model model(recipe, world);
    auto x = model.blocks[0](torch::ones({2, kSize}));
    x += 1;
    EXPECT_EQ(error_of([&] { model.blocks[1](x).sum().backward(); }), "nothing was thrown");
  });
}

TEST(ShardedUnits, SayWhatIsWrong) {
  run_ranks({.size = 2}, [](World& world) {
    ShardedUnits units(world);
    EXPECT_EQ(error_of([&] { ShardedOptimizer(units, adam()); }),
              "ShardedUnits: no units: expected shard() before the optimizer");
    EXPECT_EQ(error_of([&] { units.shard(torch::nn::Embedding(0, 4), "empty"); }),
              "nothing was thrown");
    Block block(1, torch::kFloat32);
    auto unit = units.shard(block, "block");
    EXPECT_TRUE(contains(error_of([&] { units.shard(block, "again"); }),
                         "belongs to another unit already"));
    torch::nn::Sequential mixed(torch::nn::Linear(2, 2), torch::nn::Linear(2, 2));
    mixed->children()[0]->to(torch::kFloat64);
    EXPECT_EQ(error_of([&] { units.shard(mixed, "mixed"); }), "nothing was thrown");
    torch::nn::Linear frozen(2, 2);
    for (auto& parameter : frozen->parameters()) parameter.requires_grad_(false);
    EXPECT_EQ(error_of([&] { units.shard(frozen, "frozen"); }),
              "ShardedUnits: unit 'frozen' has no parameter that requires gradients");
    ShardedOptimizer optimizer(units, adam());
    EXPECT_EQ(error_of([&] { units.shard(Block(2, torch::kFloat32), "late"); }),
              "ShardedUnits: unit 'late' comes after a unit ran, or the optimizer was made");
    EXPECT_EQ(error_of([&] { ShardedOptimizer(units, adam()); }),
              "ShardedUnits: another optimizer updates these units");
    // On one rank alone.
    ShardedUnits others(world);
    EXPECT_EQ(
        error_of([&] { others.shard(world.rank() == 1 ? frozen : torch::nn::Linear(2, 2), "b"); }),
        "ShardedUnits: unit 'b' has no parameter that requires gradients");
    auto x = torch::ones({1, kSize}).requires_grad_();
    const auto y = unit(x);
    EXPECT_TRUE(contains(
        error_of([&] { torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true); }),
        "create_graph"));
    optimizer.zero_grad();
    EXPECT_EQ(error_of([&] {
                ShardedUnit<BlockImpl>()(torch::ones({1, kSize}));
              }),
              "ShardedUnit: empty: expected one that ShardedUnits::shard() made");
  });
  const auto errors = run_ranks_catching({.size = 2}, [](World& world) {
    ShardedUnits units(world);
    units.shard(torch::nn::Linear(2, 2 + world.rank()), "unit");
  });
  for (const auto& error : errors) EXPECT_TRUE(contains(error, "rank 1")) << error;
}

}  // namespace
}  // namespace sullae::testing

// Units that compute in 16 bits beside norms in 32 train what MixedPrecision trains in one process.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>

#include "sullae/parallel/mesh.h"
#include "sullae/parallel/sharded_optimizer.h"
#include "sullae/parallel/sharded_units.h"
#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

constexpr std::int64_t kSize = 37;
constexpr std::int64_t kBatch = 12;
constexpr int kBlocks = 3;
constexpr int kSteps = 20;

// Parameters of both types in turn, and one that is not trained.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int number) {
    scale->weight.requires_grad_(false);
    const torch::NoGradGuard guard;
    double seed = number;
    for (auto& parameter : parameters()) {
      seed += 1.7;
      const auto flat = torch::arange(parameter.numel(), torch::kFloat64);
      parameter.copy_((torch::sin(flat * 12.9898 + seed) * 0.3).view(parameter.sizes()));
    }
    scale->weight.fill_(0.3);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto type = one->weight.scalar_type();
    const auto y = torch::tanh(one(norm(x).to(type)));
    return x + two(scale(y)).to(torch::kFloat32);
  }
  torch::nn::Linear one{register_module("one", torch::nn::Linear(kSize, 31))};
  torch::nn::LayerNorm norm{
      register_module("norm", torch::nn::LayerNorm(std::vector<std::int64_t>{kSize}))};
  torch::nn::Linear scale{
      register_module("scale", torch::nn::Linear(torch::nn::LinearOptions(31, 31).bias(false)))};
  torch::nn::Linear two{register_module("two", torch::nn::Linear(31, kSize))};
};
TORCH_MODULE(Block);

using Weights = std::map<std::string, torch::Tensor>;

ShardedOptimizer::Maker adam() {
  return [](const ShardedOptimizer::Pieces& pieces) {
    return std::make_unique<Adam>(pieces.values(), torch::optim::AdamOptions(0.002).eps(1e-3));
  };
}

template <class Blocks>
torch::Tensor loss_of(Blocks& blocks, int step, int part, int parts) {
  const auto all = torch::sin(torch::arange(kBatch * kSize).view({kBatch, kSize}) * 0.37 + step);
  const auto input = all.narrow(0, part * kBatch / parts, kBatch / parts);
  auto x = input;
  for (auto& block : blocks) x = block(x);
  return (x - torch::cos(input * 3)).pow(2).mean();
}

struct Whole : torch::nn::Module {
  Whole() {
    for (int i = 0; i < kBlocks; ++i)
      blocks.push_back(register_module(std::to_string(i), Block(i)));
  }
  std::vector<Block> blocks;
};

Weights trained_in_one_process() {
  Whole model;
  MixedPrecision mixed(model);
  const auto optimizer = adam()([&] {
    ShardedOptimizer::Pieces trained;
    for (const auto& item : mixed.master_named_parameters())
      if (item.value().requires_grad()) trained.insert(item.key(), item.value());
    return trained;
  }());
  for (int step = 0; step < kSteps; ++step) {
    mixed.zero_grad();
    loss_of(model.blocks, step, 0, 1).backward();
    mixed.unscale(1);
    optimizer->step();
    mixed.update_model();
  }
  Weights weights;
  for (const auto& item : mixed.master_named_parameters())
    if (item.value().requires_grad()) weights[item.key()] = item.value().detach();
  return weights;
}

struct Model {
  explicit Model(const ShardedUnits& divided) : units(divided) {
    for (int i = 0; i < kBlocks; ++i) {
      const Block block(i);
      whole.register_module(std::to_string(i), block.ptr());
      blocks.push_back(units.shard(block, std::to_string(i)));
    }
  }
  void train(ShardedOptimizer& optimizer, const World& world, int from, int to) {
    for (int step = from; step < to; ++step) {
      optimizer.zero_grad();
      loss_of(blocks, step, world.rank(), world.size()).backward();
      optimizer.step();
    }
  }
  /// On rank 0, in float32. One that is alone has those of norms itself.
  Weights weights(ShardedOptimizer& optimizer, const World& world) const {
    Weights all = optimizer.master_weights();
    if (world.size() > 1) return all;
    for (const auto& item : whole.named_parameters()) {
      if (item.value().requires_grad()) all.emplace(item.key(), item.value().detach());
    }
    return all;
  }
  ShardedUnits units;
  torch::nn::Module whole;
  std::vector<ShardedUnit<BlockImpl>> blocks;
};

constexpr ShardedUnitsOptions kSixteen{.type = torch::kBFloat16};

TEST(UnitsIn16Bits, TrainWhatMixedPrecisionTrains) {
  const Weights expected = trained_in_one_process();
  for (const int size : {1, 2, 3, 4}) {
    run_ranks({.size = size}, [&](World& world) {
      const Mesh mesh(world, {{"replicas", size == 4 ? 2 : 1}, {"shard", size == 4 ? 2 : size}});
      Model model(ShardedUnits(mesh["shard"], mesh["replicas"], kSixteen));
      ShardedOptimizer optimizer(model.units, adam());
      model.train(optimizer, world, 0, kSteps);
      const Weights weights = model.weights(optimizer, world);
      for (const auto& block : model.blocks) {
        EXPECT_EQ(block.module()->one->weight.scalar_type(), torch::kBFloat16);
        EXPECT_EQ(block.module()->norm->weight.scalar_type(), torch::kFloat32);
      }
      if (mesh["shard"].rank() != 0) return;
      ASSERT_EQ(weights.size(), expected.size());
      for (const auto& [name, value] : expected) {
        const auto& own = weights.at(name);
        EXPECT_EQ(own.scalar_type(), torch::kFloat32) << name;
        // Gradients are rounded once more where ranks average them.
        EXPECT_LE((own - value).abs().max().item<double>(), size == 1 ? 0 : 2e-3)
            << name << " on " << size;
      }
    });
  }
}

TEST(UnitsIn16Bits, CheckpointsGoToAnyRanksAndToFloat32) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "model.ckpt";
  Weights expected;
  run_ranks({.size = 3}, [&](World& world) {
    Model model(ShardedUnits(world, kSixteen));
    ShardedOptimizer optimizer(model.units, adam());
    model.train(optimizer, world, 0, 5);
    save_checkpoint(file, model.whole, optimizer);
    const Weights weights = model.weights(optimizer, world);
    if (world.rank() == 0) expected = weights;
  });
  for (const int size : {1, 2, 4}) {
    run_ranks({.size = size}, [&](World& world) {
      Model model(ShardedUnits(world, kSixteen));
      ShardedOptimizer optimizer(model.units, adam());
      load_checkpoint(file, model.whole, optimizer);
      const Weights weights = model.weights(optimizer, world);
      if (world.rank() != 0) return;
      for (const auto& [name, value] : expected)
        EXPECT_TRUE(torch::equal(weights.at(name), value)) << name << " on " << size;
    });
  }
  Whole model;
  for (auto& parameter : model.parameters()) parameter.detach().zero_();
  load_checkpoint(file, model);
  for (const auto& [name, value] : expected)
    EXPECT_TRUE(torch::equal(*model.named_parameters().find(name), value)) << name;
  EXPECT_NEAR(model.blocks[0]->scale->weight.mean().item<double>(), 0.3, 1e-3);  // in 16 bits
}

TEST(UnitsIn16Bits, SayWhatCannotBe) {
  run_ranks({.size = 2}, [&](World& world) {
    ShardedUnits half(world, {.type = torch::kFloat16});
    EXPECT_TRUE(contains(error_of<InputError>([&] { half.shard(Block(0), "0"); }),
                         "libtorch does not compute in float16 on the CPU"));
    ShardedUnits wide(world, {.type = torch::kFloat64});
    EXPECT_TRUE(contains(error_of<InputError>([&] { wide.shard(Block(0), "0"); }),
                         "expected bfloat16 or float16"));
  });
}

}  // namespace
}  // namespace sullae::testing

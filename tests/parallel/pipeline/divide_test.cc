// Layers in a row divided into stages.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "parallel/pipeline/layer_cost.h"
#include "parallel/pipeline/partition.h"
#include "sullae/parallel/pipeline.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

using pipeline::LayerCost;
using pipeline::partition;
using pipeline::PartitionLimits;

constexpr double kNever = std::numeric_limits<double>::infinity();

// The slowest stage's time; infinite where a stage takes too much memory.
double slowest(const std::vector<LayerCost>& layers, std::vector<std::size_t> firsts,
               const PartitionLimits& limits) {
  firsts.push_back(layers.size());
  double most = 0;
  for (std::size_t stage = 0; stage + 1 < firsts.size(); ++stage) {
    double seconds = 0;
    double bytes = 0;
    for (std::size_t i = firsts[stage]; i < firsts[stage + 1]; ++i) {
      seconds += layers[i].seconds;
      bytes += layers[i].parameter_bytes + limits.alive * layers[i].activation_bytes;
    }
    if (limits.memory_bytes > 0 && bytes > limits.memory_bytes / limits.chunks) return kNever;
    most = std::max(most, seconds);
  }
  return most;
}

double best_of_all(const std::vector<LayerCost>& layers, const PartitionLimits& limits) {
  const auto stages = static_cast<std::size_t>(limits.ranks * limits.chunks);
  double best = kNever;
  for (unsigned cuts = 0; cuts < 1U << (layers.size() - 1); ++cuts) {
    std::vector<std::size_t> firsts{0};
    for (std::size_t i = 1; i < layers.size(); ++i) {
      if (cuts >> (i - 1) & 1U) firsts.push_back(i);
    }
    if (firsts.size() == stages) best = std::min(best, slowest(layers, firsts, limits));
  }
  return best;
}

TEST(Partition, IsTheBestOfAll) {
  std::mt19937 draw(1);
  std::uniform_real_distribution<double> cost(0, 1);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<LayerCost> layers(4 + draw() % 6);
    for (LayerCost& layer : layers) layer = {cost(draw), cost(draw), cost(draw)};
    PartitionLimits limits{.ranks = 1 + static_cast<int>(draw() % 3),
                           .chunks = 1 + static_cast<int>(draw() % 2)};
    if (limits.ranks * limits.chunks > static_cast<int>(layers.size())) continue;
    limits.alive = 1 + static_cast<int>(draw() % 3);
    if (trial % 2 == 1) limits.memory_bytes = 2 + 6 * cost(draw);
    const double best = best_of_all(layers, limits);
    const auto firsts = partition(layers, limits);
    if (best == kNever) {
      EXPECT_TRUE(firsts.empty());
      continue;
    }
    ASSERT_EQ(firsts.size(), static_cast<std::size_t>(limits.ranks * limits.chunks));
    EXPECT_DOUBLE_EQ(slowest(layers, firsts, limits), best);
  }
}

torch::nn::Sequential layers_of(int count) {
  torch::nn::Sequential layers;
  for (int i = 0; i < count; ++i) layers->push_back(torch::nn::Linear(16, 16));
  return layers;
}

TEST(LayerCost, SeesTimeParametersAndActivations) {
  torch::nn::Sequential layers(torch::nn::Linear(64, 512), torch::nn::Dropout(0.5),
                               torch::nn::Linear(512, 64));
  torch::manual_seed(3);
  const auto next = torch::rand({2});
  torch::manual_seed(3);
  const auto costs = pipeline::measure(layers, torch::ones({32, 64}), 4);
  EXPECT_TRUE(torch::equal(torch::rand({2}), next));
  ASSERT_EQ(costs.size(), 3U);
  EXPECT_EQ(costs[0].parameter_bytes, 4 * 4 * (64 * 512 + 512));
  EXPECT_GE(costs[0].activation_bytes, 32 * 512 * 4);
  EXPECT_GE(costs[1].activation_bytes, 32 * 512 * 4);  // and a mask
  EXPECT_GT(costs[2].seconds, 0);
  for (const auto& parameter : layers->parameters()) EXPECT_FALSE(parameter.grad().defined());
}

TEST(Divide, GivesEachRankItsLayersByTheirNames) {
  run_ranks({.size = 3}, [](World& world) {
    const auto layers = layers_of(7);
    const auto stages = divide(layers, torch::ones({4, 16}), world, {.stages_per_rank = 2});
    ASSERT_EQ(stages.size(), 2U);
    std::int64_t here = 0;
    for (const auto& stage : stages) {
      for (const auto& item : stage.module->named_parameters()) {
        EXPECT_TRUE(item.value().is_same(layers->named_parameters()[item.key()]));
        ++here;
      }
    }
    world.allreduce(&here, &here, 1, DataType::int64);
    EXPECT_EQ(here, 14);
  });
}

// Ranks would have two where one process has one.
TEST(Divide, RefusesAParameterOfTwoStages) {
  run_ranks({.size = 2}, [](World& world) {
    const torch::nn::Linear shared(8, 8);
    torch::nn::Sequential layers;
    layers->push_back("a", shared);
    layers->push_back("b", torch::nn::Linear(8, 8));
    layers->push_back("c", torch::nn::Linear(8, 8));
    layers->push_back("d", shared);
    EXPECT_TRUE(contains(
        error_of<InputError>([&] {
          divide(layers, torch::zeros({64, 8}), world);
        }),
        "divide: 'a.weight' of stage 0 and 'd.weight' of stage 1 are one parameter: expected"));
  });
}

TEST(Divide, SaysWhatIsWrong) {
  const auto errors = [](int layers, std::int64_t width, const DivisionOptions& options) {
    return run_ranks_catching({.size = 2}, [&](World& world) {
      divide(layers_of(layers), torch::ones({4, width}), world, options);
    });
  };
  for (const auto& error : errors(1, 16, {})) {
    EXPECT_EQ(
        error,
        "divide: 1 layers, 1 stages a rank for 2 ranks: expected at least a stage a rank, and "
        "a layer a stage");
  }
  for (const auto& error : errors(2, 16, {.stages_per_rank = 0}))
    EXPECT_TRUE(contains(error, "expected at least a stage a rank")) << error;
  for (const auto& error : errors(2, 15, {}))
    EXPECT_TRUE(
        contains(error, "divide: layer 0 (torch::nn::LinearImpl) cannot be measured with [4, 15]"))
        << error;
  // A layer that cannot be copied to be measured.
  struct OwnImpl : torch::nn::Module {
    torch::Tensor forward(const torch::Tensor& x) { return x; }
  };
  for (const auto& error : run_ranks_catching({.size = 2}, [&](World& world) {
         torch::nn::Sequential layers(torch::nn::Linear(2, 2), std::make_shared<OwnImpl>());
         divide(layers, torch::ones({2, 2}), world);
       }))
    EXPECT_TRUE(contains(error, "divide: layer 1 ")) << error;
  for (const auto& error : errors(2, 16, {.memory_bytes = 1000}))
    EXPECT_EQ(
        error,
        "divide: no division of 2 layers, 1 stages a rank among 2 ranks keeps within 1000 bytes "
        "a rank, which its stages share");
}

}  // namespace
}  // namespace sullae::testing

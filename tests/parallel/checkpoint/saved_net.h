// A net with tensors of all kinds, trained in parts and saved, for tests of checkpoints.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/sharded_state.h"
#include "sullae/parallel/sharded_optimizer.h"
#include "sullae/torch.h"
#include "sullae/torch/checkpoint.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
inline constexpr std::int64_t kBatch = 60;  // divisible by 1 to 6 ranks

// Tensors that are read at once and such that are read in parts, in another order than a contiguous
// one, without a gradient, frozen, tied, of other types, and without elements.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(torch::ScalarType type = torch::kFloat32) {
    to(type);
    const torch::NoGradGuard guard;
    double seed = 1;
    // Without libtorch's generator, which threads would share.
    for (auto& parameter : parameters()) {
      const auto flat = torch::arange(parameter.numel(), torch::kFloat64);
      parameter.copy_((torch::sin(flat * 12.9898 + seed) * 0.2).view(parameter.sizes()));
      seed += 1.7;
    }
    conv->weight.set_data(conv->weight.contiguous(torch::MemoryFormat::ChannelsLast));
    for (auto& parameter : frozen->parameters()) parameter.requires_grad_(false);
    register_parameter("tied", three->weight);
    register_parameter("empty", torch::zeros({0, 4}));
    register_buffer("table", torch::arange(20'000, torch::kInt64));
    register_buffer("nothing", torch::zeros({0, 3}));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = torch::tanh(two(torch::tanh(one(x))));
    const auto image = conv(y.narrow(1, 0, 128).reshape({-1, 32, 2, 2}));
    return three(frozen(y)) + image.mean({2, 3}).narrow(1, 0, 5);
  }
  torch::nn::Linear one{register_module("one", torch::nn::Linear(7, 300))};
  torch::nn::Linear two{register_module("two", torch::nn::Linear(300, 130))};
  torch::nn::Conv2d conv{
      register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(32, 64, 3).padding(1)))};
  torch::nn::Linear frozen{register_module("frozen", torch::nn::Linear(130, 130))};
  torch::nn::Linear never{register_module("never", torch::nn::Linear(3, 3))};
  torch::nn::Linear three{register_module("three", torch::nn::Linear(130, 5))};
};
TORCH_MODULE(Net);

inline torch::OrderedDict<std::string, torch::Tensor> trained(const Net& net) {
  torch::OrderedDict<std::string, torch::Tensor> parameters;
  for (const auto& item : net->named_parameters()) {
    if (item.key() != "tied" && item.value().requires_grad())
      parameters.insert(item.key(), item.value());
  }
  return parameters;
}

// Weights, and what is none: an optimizer's two groups.
inline std::pair<std::vector<torch::Tensor>, std::vector<torch::Tensor>> matrices_and_others(
    const torch::OrderedDict<std::string, torch::Tensor>& pieces) {
  std::vector<torch::Tensor> matrices;
  std::vector<torch::Tensor> others;
  for (const auto& item : pieces)
    (item.key().ends_with("weight") ? matrices : others).push_back(item.value());
  return {matrices, others};
}

inline const std::map<std::string, ShardedOptimizer::Maker> kMakers = {
    {"Adam",
     [](const auto& pieces) {
       return std::make_unique<Adam>(pieces.values(), torch::optim::AdamOptions(0.01));
     }},
    {"SGD",
     [](const auto& pieces) {
       return std::make_unique<torch::optim::SGD>(pieces.values(),
                                                  torch::optim::SGDOptions(0.05).momentum(0.9));
     }},
    {"Adagrad",
     [](const auto& pieces) {
       return std::make_unique<torch::optim::Adagrad>(pieces.values(),
                                                      torch::optim::AdagradOptions(0.01));
     }},
    // Of the first group nothing is kept.
    {"momentum of one group",
     [](const auto& pieces) {
       const auto [matrices, others] = matrices_and_others(pieces);
       std::vector<torch::optim::OptimizerParamGroup> groups;
       groups.emplace_back(others);
       groups.emplace_back(matrices, std::make_unique<torch::optim::SGDOptions>(
                                         torch::optim::SGDOptions(0.05).momentum(0.9)));
       return std::make_unique<torch::optim::SGD>(groups, torch::optim::SGDOptions(0.05));
     }},
    {"two groups", [](const auto& pieces) {
       const auto [matrices, others] = matrices_and_others(pieces);
       std::vector<torch::optim::OptimizerParamGroup> groups;
       groups.emplace_back(others);
       groups.emplace_back(matrices, std::make_unique<torch::optim::AdamWOptions>(0.003));
       return std::make_unique<torch::optim::AdamW>(groups, torch::optim::AdamWOptions(0.01));
     }}};

inline void run_steps(Net& net, ShardedOptimizer& optimizer, torch::ScalarType type, int steps,
                      const World& world) {
  for (int step = 0; step < steps; ++step) {
    const auto all = torch::sin(torch::arange(kBatch * 7, torch::kFloat64).view({kBatch, 7}) * 0.4 +
                                static_cast<double>(step))
                         .to(type);
    const auto own = all.narrow(0, world.rank() * kBatch / world.size(), kBatch / world.size());
    optimizer.zero_grad();
    (net->forward(own) - torch::cos(own.narrow(1, 0, 5))).pow(2).mean().backward();
    optimizer.step();
  }
}

// What a process finds in a checkpoint that knows nothing of ranks.
struct Found {
  Found(const std::filesystem::path& file, torch::ScalarType type,
        const ShardedOptimizer::Maker& make)
      : net(type), optimizer(make(trained(net))) {
    metadata = load_checkpoint(file, *net, optimizer.get());
  }
  Net net;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  CheckpointMetadata metadata;
};

inline bool same(const c10::IValue& one, const c10::IValue& other) {
  if (one.isTensor() != other.isTensor()) return false;
  if (!one.isTensor()) return one == other;
  return torch::equal(one.toTensor(), other.toTensor());
}

inline void expect_same(Found& one, Found& other, const std::string& what) {
  for (const auto& item : one.net->named_parameters())
    EXPECT_TRUE(torch::equal(item.value(), other.net->named_parameters()[item.key()]))
        << what << ' ' << item.key();
  for (const auto& item : one.net->named_buffers())
    EXPECT_TRUE(torch::equal(item.value(), other.net->named_buffers()[item.key()]))
        << what << ' ' << item.key();
  const auto ones = trained(one.net);
  const auto others = trained(other.net);
  for (const auto& item : ones) {
    const auto state = state_of(*one.optimizer, item.value());
    const auto its = state_of(*other.optimizer, others[item.key()]);
    ASSERT_EQ(state.size(), its.size()) << what << ' ' << item.key();
    for (const auto& [name, value] : state)
      EXPECT_TRUE(same(value, its.at(name))) << what << ' ' << item.key() << ' ' << name;
  }
  for (std::size_t group = 0; group < one.optimizer->param_groups().size(); ++group)
    EXPECT_EQ(one.optimizer->param_groups()[group].options().get_lr(),
              other.optimizer->param_groups()[group].options().get_lr());
}

class ShardedCheckpoint : public ::testing::Test {
 protected:
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename());
    return names;
  }
  // Of a training of some steps.
  void save(int ranks, const ShardedOptimizer::Maker& make,
            torch::ScalarType type = torch::kFloat32, bool also_whole = false) {
    run_ranks({.size = ranks}, [&](World& world) {
      Net net(type);
      ShardedOptimizer optimizer(trained(net), make, {.bucket_bytes = 7000}, world);
      run_steps(net, optimizer, type, 4, world);
      CheckpointMetadata metadata;
      if (world.rank() == 0)
        metadata = {{{"step", 4}}, {{"words", "a\nb"}}, {{"large", torch::arange(30'000)}}};
      save_checkpoint(file_, *net, optimizer, {.metadata = metadata});
      if (!also_whole) return;
      auto whole = optimizer.gather();
      const auto master = whole.weights.find("three.weight");
      if (master != whole.weights.end()) whole.weights["tied"] = master->second;
      if (world.rank() == 0)
        save_checkpoint(whole_, *net, whole.optimizer.get(),
                        {.metadata = metadata, .weights = std::move(whole.weights)});
    });
  }

  TemporaryDirectory folder_;
  std::filesystem::path file_ = folder_.path() / "checkpoint";
  std::filesystem::path whole_ = folder_.path() / "whole";
  std::filesystem::path again_ = folder_.path() / "again";
};

}  // namespace sullae::testing

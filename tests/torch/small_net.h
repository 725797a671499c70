// A small network that is trained on any number of ranks, compared with one process.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <mutex>
#include <vector>

#include "sullae/torch.h"
#include "support/ranks.h"

namespace sullae::testing {

using Weights = std::vector<torch::Tensor>;

inline torch::nn::Sequential mlp(int in, int out, std::uint64_t seed) {
  torch::manual_seed(seed);
  torch::nn::Sequential net(torch::nn::Linear(in, 16), torch::nn::Tanh(), torch::nn::Linear(16, 16),
                            torch::nn::Tanh(), torch::nn::Linear(16, out));
  net->to(torch::kFloat64);
  return net;
}

inline torch::Tensor drawn(int rows, int columns, std::int64_t seed) {
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  return torch::randn({rows, columns}, torch::kFloat64);
}

inline constexpr int kRows = 12;

// This rank's rows of the batch of a step.
inline torch::Tensor part(const torch::Tensor& batch, const World& world) {
  const int rows = kRows / world.size();
  return batch.narrow(0, world.rank() * rows, rows);
}

inline Weights copy_of(const std::vector<torch::Tensor>& parameters) {
  Weights copies;
  for (const auto& parameter : parameters) copies.push_back(parameter.detach().clone());
  return copies;
}

// Small buckets, so that several are under way at any moment, also behind backward().
inline DistributedOptimizerOptions small_buckets(ReduceOp op = ReduceOp::average) {
  return {.op = op, .bucket_bytes = 256, .after_backward = false};
}

// What `program` makes of its weights is the same, whatever the number of ranks.
inline void expect_as_in_one_process(const std::function<Weights(World&)>& program) {
  std::mutex mutex;
  Weights alone;
  for (const int size : {1, 2, 3}) {
    run_ranks({.size = size}, [&](World& world) {
      const Weights weights = program(world);
      const std::lock_guard lock(mutex);
      if (size == 1) alone = weights;
      ASSERT_EQ(weights.size(), alone.size());
      for (std::size_t i = 0; i < weights.size(); ++i) {
        EXPECT_LT((weights[i] - alone[i]).abs().max().item<double>(), 1e-10)
            << "weight " << i << " on rank " << world.rank() << " of " << size;
      }
    });
  }
}

// Made before the ranks run: they would draw from one generator at once.
struct Data {
  torch::nn::Sequential net = mlp(4, 1, 1);
  std::vector<torch::Tensor> batches;
  Data() {
    for (int i = 0; i < 8; ++i) batches.push_back(drawn(kRows, 4, 100 + i));
  }
  torch::nn::Sequential clone() const {
    return torch::nn::Sequential(
        std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone()));
  }
};

enum class Clear { ours, optimizers_own, to_none };

struct Trained {
  Trained(const Data& data, World& world, DistributedOptimizerOptions options = small_buckets())
      : net(data.clone()),
        sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)),
        optimizer(sgd, net->named_parameters(), options, world) {}
  torch::Tensor loss(const torch::Tensor& batch) { return net->forward(batch).pow(2).mean(); }
  void clear(Clear how) {
    if (how == Clear::ours) return optimizer.zero_grad();
    if (how == Clear::optimizers_own) return sgd.zero_grad();
    for (auto& parameter : net->parameters()) parameter.mutable_grad() = torch::Tensor();
  }
  torch::nn::Sequential net;
  torch::optim::SGD sgd;
  DistributedOptimizer optimizer;
};

}  // namespace sullae::testing

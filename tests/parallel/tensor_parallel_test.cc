// A model whose layers are divided among ranks trains as one process's does.
#include "sullae/parallel/tensor_parallel.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "parallel/tensor/writer.h"
#include "sullae/parallel/mesh.h"
#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using Weights = std::map<std::string, torch::Tensor>;

Weights train(const World& world, const World& data, double clip) {
  Writer model(world);
  torch::optim::AdamW adam(model->parameters(), torch::optim::AdamWOptions(0.01));
  DistributedOptimizer optimizer(adam, model->named_parameters(), {}, data);
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    const std::int64_t own = kTexts / data.size();
    model->loss(texts_of(step).narrow(0, data.rank() * own, own)).backward();
    optimizer.synchronize();
    if (clip > 0) clip_grad_norm(*model, clip, world);
    optimizer.step();
  }
  return gather_parameters(*model, world);
}

void expect_close(const Weights& weights, const Weights& expected) {
  ASSERT_EQ(weights.size(), expected.size());
  for (const auto& [name, value] : expected) {
    ASSERT_EQ(weights.at(name).sizes(), value.sizes()) << name;
    EXPECT_LT((weights.at(name) - value).abs().max().item<double>(), 1e-10) << name;
  }
}

TEST(TensorParallel, TrainsWhatOneProcessTrains) {
  for (const double clip : {0.0, 0.05}) {
    Weights alone;
    run_ranks({.size = 1}, [&](World& world) { alone = train(world, world, clip); });
    for (const int size : {2, 3})
      run_ranks({.size = size},
                [&](World& world) { expect_close(train(world, World::create({}), clip), alone); });
    run_ranks({.size = 4}, [&](World& world) {
      const Mesh mesh(world, {{"dp", 2}, {"tp", 2}});
      expect_close(train(mesh["tp"], mesh["dp"], clip), alone);
    });
  }
}

// Loss and gradients of cross_entropy itself, with targets that do not count.
TEST(TensorParallel, CrossEntropyIsLibtorchs) {
  const auto target = torch::tensor({3, -100, 0, 6, 2, -100}, torch::kInt64).view({2, 3});
  const auto whole = torch::sin(torch::arange(42, torch::kFloat64) * 3).view({2, 3, 7}) * 40;
  auto alone = whole.clone().requires_grad_();
  const auto expected = torch::nn::functional::cross_entropy(alone.view({6, 7}), target.view({6}));
  (expected * 3).backward();
  for (const int size : {1, 2, 3, 5}) {
    run_ranks({.size = size}, [&](World& world) {
      auto scores = whole.clone().requires_grad_();
      const auto loss =
          vocab_parallel_cross_entropy(scatter_to_ranks(scores, 2, world), target, 7, -100, world);
      (loss * 3).backward();
      EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-12);
      EXPECT_TRUE(torch::allclose(scores.grad(), alone.grad(), 1e-10, 1e-12));
    });
  }
}

TEST(TensorParallel, LinearLayersTakeWholeInputsAndGiveWholeOutputs) {
  const auto x = torch::sin(torch::arange(30, torch::kFloat32)).view({2, 3, 5});
  std::mutex mutex;  // of libtorch's generator, which threads share
  torch::Tensor expected;
  for (const int size : {1, 2, 3}) {
    run_ranks({.size = size}, [&](World& world) {
      ColumnParallelLinear column{nullptr};
      RowParallelLinear row{nullptr};
      {
        const std::lock_guard lock(mutex);
        torch::manual_seed(7);
        column = ColumnParallelLinear(
            ColumnParallelLinearOptions{.in_features = 5, .out_features = 7, .gather_output = true},
            world);
        row = RowParallelLinear(
            RowParallelLinearOptions{
                .in_features = 7, .out_features = 4, .input_is_parallel = false},
            world);
      }
      const auto y = row(column(x));
      if (size == 1) expected = y.detach();
      EXPECT_TRUE(torch::allclose(y, expected, 1e-5, 1e-6));
    });
  }
}

// Padding is looked at by nobody.
TEST(TensorParallel, AttentionSeesNoPadding) {
  run_ranks({.size = 2}, [](World& world) {
    ParallelAttention attention(ParallelAttentionOptions{.embed_dim = 8, .num_heads = 2}, world);
    const torch::NoGradGuard guard;
    for (auto& parameter : attention->parameters())
      parameter.copy_(torch::sin(torch::arange(parameter.numel(), torch::kFloat32) * 1.7)
                          .view(parameter.sizes()));
    const auto x = torch::cos(torch::arange(48, torch::kFloat32)).view({1, 6, 8});
    auto other = x.clone();
    other.narrow(1, 4, 2).fill_(9);
    const auto padding = torch::tensor({0, 0, 0, 0, 1, 1}).to(torch::kBool).view({1, 6});
    EXPECT_TRUE(torch::allclose(attention(x, padding).narrow(1, 0, 4),
                                attention(other, padding).narrow(1, 0, 4)));
    EXPECT_FALSE(torch::allclose(attention(x).narrow(1, 0, 4), attention(other).narrow(1, 0, 4)));
  });
}

TEST(TensorParallel, MakesOneAllreduceABlockEachWay) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "timeline.json";
  run_ranks({.size = 2}, [&](World& world) {
    Writer model(world, 2);
    auto x = torch::ones({2, kTime, kSize}, torch::kFloat64).requires_grad_();
    world.start_timeline(file);
    const auto y = model->block(x).sum();
    world.mark("HALF", "", std::chrono::steady_clock::now());
    y.backward();
    world.stop_timeline();
  });
  std::ifstream stream(file);
  std::vector<std::pair<double, std::string>> events;
  const auto timeline = nlohmann::json::parse(stream);
  for (const auto& event : timeline.at("traceEvents")) {
    if (event.at("ph") == "X" && event.at("pid") == 0)
      events.emplace_back(event.at("ts"), event.at("name"));
  }
  std::ranges::sort(events);
  std::vector<std::string> phases;
  for (const auto& [time, phase] : events) phases.push_back(phase);
  // Attention and the network after it are a block each.
  EXPECT_EQ(phases,
            (std::vector<std::string>{"ALLREDUCE", "ALLREDUCE", "HALF", "ALLREDUCE", "ALLREDUCE"}));
}

TEST(TensorParallel, CheckpointsAreThoseOfOneProcess) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "model.pt";
  Weights saved;
  run_ranks({.size = 3}, [&](World& world) {
    Writer model(world);
    {
      const torch::NoGradGuard guard;
      for (auto& parameter : model->parameters()) parameter.mul_(1.5);
    }
    const auto whole = gather_parameters(*model, world);
    if (world.rank() != 0) return;
    save_checkpoint(file, *model, nullptr, {.weights = whole});
    saved = whole;
  });
  run_ranks({.size = 1}, [&](World& world) {
    Writer model(world);
    load_checkpoint(file, *model);
    const auto loaded = gather_parameters(*model, world);
    for (const auto& [name, value] : saved)
      EXPECT_TRUE(torch::equal(loaded.at(name), value)) << name;
  });
  run_ranks({.size = 2}, [&](World& world) {
    Writer model(world);
    load_parameters(*model, saved);
    const auto loaded = gather_parameters(*model, world);
    for (const auto& [name, value] : saved)
      EXPECT_TRUE(torch::equal(loaded.at(name), value)) << name;
  });
}

TEST(TensorParallel, SaysWhatIsWrong) {
  run_ranks({.size = 4}, [](World& world) {
    EXPECT_EQ(error_of([&] { Writer model(world, 3); }),
              "ParallelAttention: num_heads: 3 for 4 ranks: expected at least one a rank");
    EXPECT_EQ(error_of([&] {
                ParallelAttention(ParallelAttentionOptions{.embed_dim = 10, .num_heads = 4}, world);
              }),
              "ParallelAttention: embed_dim 10 is not a multiple of num_heads 4");
    EXPECT_EQ(
        error_of([&] { VocabParallelEmbedding(3, 8, world); }),
        "VocabParallelEmbedding: num_embeddings: 3 for 4 ranks: expected at least one a rank");
    const auto target = torch::tensor({1, 9}, torch::kInt64);
    EXPECT_EQ(error_of([&] {
                vocab_parallel_cross_entropy(torch::zeros({2, 2}), target, 8, -100, world);
              }),
              "vocab_parallel_cross_entropy: target 9: expected 0 to 7");
    EXPECT_TRUE(
        contains(error_of([&] {
                   vocab_parallel_cross_entropy(torch::zeros({2, 8}), target, 8, -100, world);
                 }),
                 "scores [2, 8] for targets [2]: expected the scores of this rank's 2 of "
                 "8 classes"));
    ColumnParallelLinear layer(ColumnParallelLinearOptions{.in_features = 2, .out_features = 8},
                               world);
    EXPECT_EQ(error_of([&] { load_parameters(*layer, {}); }),
              "load_parameters: there is no 'weight'");
    EXPECT_EQ(
        error_of([&] {
          load_parameters(*layer, {{"bias", torch::zeros(8)}, {"weight", torch::ones({2, 2})}});
        }),
        "load_parameters: 'weight' has shape [2, 2], expected [8, 2]");
  });
}

}  // namespace
}  // namespace sullae::testing

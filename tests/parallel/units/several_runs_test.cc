// A unit that does one thing here and another there: a model's vectors of words, which what follows
// is scored by again.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>

#include "sullae/parallel/sharded_optimizer.h"
#include "sullae/parallel/sharded_units.h"
#include "sullae/torch.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

constexpr std::int64_t kTexts = 60;  // divisible by 1 to 6 parts
constexpr std::int64_t kWords = 17;
constexpr std::int64_t kSize = 13;
constexpr int kPasses = 2;

torch::Tensor drawn(std::initializer_list<std::int64_t> sizes, double seed) {
  const auto values = torch::zeros(sizes, torch::kFloat64);
  return torch::sin(torch::arange(values.numel(), torch::kFloat64) * 12.9898 + seed)
             .view(values.sizes()) *
         0.3;
}

struct VectorsImpl : torch::nn::Module {
  torch::Tensor vectors = register_parameter("vectors", drawn({kWords, kSize}, 1));
};
TORCH_MODULE(Vectors);

struct MiddleImpl : torch::nn::Module {
  torch::Tensor weight = register_parameter("weight", drawn({kSize, kSize}, 2));
  torch::Tensor forward(const torch::Tensor& x) { return torch::tanh(torch::linear(x, weight)); }
};
TORCH_MODULE(Middle);

// How each is run.
struct Ways {
  std::function<torch::Tensor(const torch::Tensor&,
                              const std::function<torch::Tensor(const torch::Tensor&)>&)>
      vectors;
  std::function<torch::Tensor(const torch::Tensor&)> middle;
};

torch::Tensor loss_of(const Ways& run, const Vectors& ends, int part, int parts) {
  const auto words =
      torch::arange(kTexts).remainder(kWords).narrow(0, part * kTexts / parts, kTexts / parts);
  const auto look_up = [&](const torch::Tensor& numbers) {
    return ends->vectors.index_select(0, numbers);
  };
  const auto score = [&](const torch::Tensor& states) {
    return torch::nn::functional::cross_entropy(torch::linear(states, ends->vectors),
                                                (words + 1).remainder(kWords));
  };
  return run.vectors(run.middle(run.vectors(words, look_up)), score);
}

template <class Optimizer>
void train(Optimizer& optimizer, const Ways& run, const Vectors& ends, int rank, int ranks) {
  for (int step = 0; step < 12; ++step) {
    optimizer.zero_grad();
    for (int pass = 0; pass < kPasses; ++pass)
      (loss_of(run, ends, rank * kPasses + pass, ranks * kPasses) / kPasses).backward();
    optimizer.step();
  }
}

torch::optim::AdamOptions options() { return torch::optim::AdamOptions(0.002).eps(1e-3); }

TEST(ShardedUnits, DoSeveralThings) {
  const Vectors ends_alone;
  Middle middle_alone;
  Adam adam({ends_alone->vectors, middle_alone->weight}, options());
  train(adam,
        {.vectors = [](const torch::Tensor& x, const auto& forward) { return forward(x); },
         .middle =
             [&](const torch::Tensor& x) {
               return middle_alone(x);
             }},
        ends_alone, 0, 1);
  for (const int size : {1, 2, 3}) {
    run_ranks({.size = size}, [&](World& world) {
      ShardedUnits units(world);
      const Vectors ends;
      const auto ends_unit = units.shard(ends, "");
      auto middle_unit = units.shard(Middle(), "");
      ShardedOptimizer optimizer(units, [](const auto& pieces) {
        return std::make_unique<Adam>(pieces.values(), options());
      });
      const Ways run{.vectors = [&](const torch::Tensor& x,
                                    const auto& forward) { return ends_unit.run(x, forward); },
                     .middle =
                         [&](const torch::Tensor& x) {
                           return middle_unit(x);
                         }};
      train(optimizer, run, ends, world.rank(), size);
      // What all of it comes to, by the weights.
      const torch::NoGradGuard guard;
      const auto difference = ends_unit.run(torch::zeros({1}), [&](const torch::Tensor&) {
        return (ends->vectors - ends_alone->vectors).abs().max();
      });
      EXPECT_LE(difference.item<double>(), 1e-10) << size;
      const auto input = torch::ones({1, kSize}, torch::kFloat64);
      EXPECT_TRUE(torch::allclose(run.middle(input), middle_alone(input), 0, 1e-10)) << size;
    });
  }
}

}  // namespace
}  // namespace sullae::testing

// The promise: training on P ranks with a global batch gives what one process gives with that
// batch, up to rounding.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>

#include "sullae/torch.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

constexpr int kSteps = 20;
constexpr std::int64_t kGlobalBatch = 180;  // divisible by 1 to 5 ranks, and that by 3 passes
constexpr std::int64_t kWords = 50;

// An embedding, a recurrent layer, and a part that only some steps use.
struct ModelImpl : torch::nn::Module {
  explicit ModelImpl(bool sparse)
      : embedding(register_module(
            "embedding",
            torch::nn::Embedding(torch::nn::EmbeddingOptions(kWords, 8).sparse(sparse)))),
        hidden(register_module("hidden", torch::nn::Linear(8 * 4, 16))),
        sometimes(register_module("sometimes", torch::nn::Linear(16, 16))),
        never(register_module("never", torch::nn::Linear(3, 3))),
        output(register_module("output", torch::nn::Linear(16, 3))) {
    to(torch::kFloat64);
  }
  torch::Tensor forward(const torch::Tensor& words, bool use_sometimes) {
    auto x = torch::tanh(hidden(embedding(words).flatten(1)));
    if (use_sometimes) x = x + torch::tanh(sometimes(x));
    return output(x);
  }
  torch::nn::Embedding embedding;
  torch::nn::Linear hidden, sometimes, never, output;
};
TORCH_MODULE(Model);

// The same start everywhere, without libtorch's generator, which threads would share.
void set_values(Model& model) {
  const torch::NoGradGuard guard;
  std::int64_t seed = 1;
  for (auto& parameter : model->parameters()) {
    auto flat = torch::arange(parameter.numel(), torch::kFloat64);
    parameter.copy_(
        (torch::sin(flat * 12.9898 + static_cast<double>(seed++)) * 0.3).view(parameter.sizes()));
  }
}

struct Batch {
  torch::Tensor words;
  torch::Tensor labels;
};
Batch global_batch(int step) {
  const auto flat = torch::arange(kGlobalBatch * 4, torch::kInt64);
  const auto words = torch::remainder(flat * (7 + step) + flat.div(3, "floor") * 5 + step, kWords)
                         .view({kGlobalBatch, 4});
  return {words, torch::remainder(words.sum(1) + step, 3)};
}

struct Recipe {
  bool sparse = false;
  bool adam = false;
  bool drop_a_part = false;
  double clip = 0;
  int passes = 1;
  std::size_t bucket_bytes = 512;
};

std::vector<torch::Tensor> train(World* world, const Recipe& recipe) {
  Model model(recipe.sparse);
  if (world == nullptr || world->rank() == 0) set_values(model);
  std::unique_ptr<torch::optim::Optimizer> inner;
  if (recipe.adam) {
    inner = std::make_unique<Adam>(model->parameters(), torch::optim::AdamOptions(0.01));
  } else {
    inner = std::make_unique<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.1));
  }
  std::unique_ptr<DistributedOptimizer> optimizer;
  if (world != nullptr) {
    broadcast_parameters(*model, 0, *world);
    optimizer = std::make_unique<DistributedOptimizer>(
        *inner, model->named_parameters(),
        DistributedOptimizerOptions{.backward_passes_per_step = recipe.passes,
                                    .bucket_bytes = recipe.bucket_bytes},
        *world);
  }
  for (int step = 0; step < kSteps; ++step) {
    const Batch batch = global_batch(step);
    const std::int64_t share = world == nullptr ? kGlobalBatch : kGlobalBatch / world->size();
    const std::int64_t begin = world == nullptr ? 0 : world->rank() * share;
    const bool use_sometimes = !recipe.drop_a_part || step % 3 == 1;
    if (optimizer) {
      optimizer->zero_grad();
    } else {
      inner->zero_grad();
    }
    const std::int64_t piece = share / recipe.passes;
    for (int pass = 0; pass < recipe.passes; ++pass) {
      const auto words = batch.words.slice(0, begin + pass * piece, begin + (pass + 1) * piece);
      const auto labels = batch.labels.slice(0, begin + pass * piece, begin + (pass + 1) * piece);
      const auto loss =
          torch::nn::functional::cross_entropy(model->forward(words, use_sometimes), labels);
      (loss / recipe.passes).backward();
    }
    if (recipe.clip > 0) {
      if (optimizer) optimizer->synchronize();
      torch::nn::utils::clip_grad_norm_(model->parameters(), recipe.clip);
    }
    if (optimizer) {
      optimizer->step();
    } else {
      inner->step();
    }
  }
  std::vector<torch::Tensor> result;
  for (const auto& parameter : model->parameters()) result.push_back(parameter.detach().clone());
  return result;
}

double relative_difference(const std::vector<torch::Tensor>& a,
                           const std::vector<torch::Tensor>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double scale = b[i].abs().max().item<double>();
    most = std::max(most, (a[i] - b[i]).abs().max().item<double>() / scale);
  }
  return most;
}

class Equivalence : public ::testing::TestWithParam<Setting> {
 protected:
  void check(const Recipe& recipe) {
    const auto alone = train(nullptr, recipe);
    run_ranks(GetParam().ranks, [&](World& world) {
      const auto together = train(&world, recipe);
      EXPECT_LT(relative_difference(together, alone), 1e-10) << "rank " << world.rank();
    });
  }
};

TEST_P(Equivalence, OfDenseGradients) { check({}); }
TEST_P(Equivalence, OfDenseGradientsInOneBucket) { check({.bucket_bytes = 1 << 20}); }
TEST_P(Equivalence, OfDenseGradientsWithAdam) { check({.adam = true}); }
TEST_P(Equivalence, OfSparseGradients) { check({.sparse = true}); }
TEST_P(Equivalence, OfSparseGradientsWithAdam) { check({.sparse = true, .adam = true}); }
TEST_P(Equivalence, WithParametersThatSomeStepsDoNotUse) { check({.drop_a_part = true}); }
TEST_P(Equivalence, OfClippedGradients) { check({.clip = 0.05}); }
TEST_P(Equivalence, OfSeveralBackwardPassesBeforeAStep) { check({.sparse = true, .passes = 3}); }

INSTANTIATE_TEST_SUITE_P(Everywhere, Equivalence, ::testing::ValuesIn(every_setting()),
                         [](const auto& test) { return test.param.name; });

TEST(EqualRuns, AreEqualToTheBit) {
  std::mutex mutex;
  std::vector<std::vector<torch::Tensor>> results;
  for (int repeat = 0; repeat < 2; ++repeat) {
    run_ranks({.size = 3}, [&](World& world) {
      auto result = train(&world, {.sparse = true, .adam = true});
      const std::lock_guard lock(mutex);
      results.push_back(std::move(result));
    });
  }
  for (const auto& result : results) EXPECT_EQ(relative_difference(result, results[0]), 0.0);
}

// Parts of a batch need not be equal: each rank's loss is weighted by its samples.
TEST(UnevenParts, CountByTheirSamples) {
  torch::manual_seed(11);
  const auto batch = torch::randn({10, 3}, torch::kFloat64);
  const auto start = torch::randn({1, 3}, torch::kFloat64);
  std::vector<torch::Tensor> ends;
  std::mutex mutex;
  for (const int size : {1, 2, 3, 4}) {
    run_ranks({.size = size}, [&](World& world) {
      auto weight = start.clone().requires_grad_();
      torch::OrderedDict<std::string, torch::Tensor> parameters;
      parameters.insert("weight", weight);
      torch::optim::SGD sgd({weight}, 0.1);
      DistributedOptimizer optimizer(sgd, parameters, {}, world);
      for (int step = 0; step < 5; ++step) {
        // 10, 9, 8, 7 and 2 samples: of four ranks two have none in the end.
        const std::int64_t samples = step < 4 ? 10 - step : 2;
        const std::int64_t first = samples * world.rank() / world.size();
        const std::int64_t last = samples * (world.rank() + 1) / world.size();
        optimizer.zero_grad();
        if (last > first) {
          const auto mine = batch.narrow(0, first, last - first);
          const auto loss = torch::tanh(torch::linear(mine, weight)).pow(2).mean();
          (loss * static_cast<double>((last - first) * world.size()) / static_cast<double>(samples))
              .backward();
        }
        optimizer.step();
      }
      const std::lock_guard lock(mutex);
      ends.push_back(weight.detach().clone());
    });
  }
  for (const auto& end : ends) EXPECT_LT((end - ends[0]).abs().max().item<double>(), 1e-10);
}

}  // namespace
}  // namespace sullae::testing

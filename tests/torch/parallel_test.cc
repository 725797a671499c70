// Every way of training in parallel gives what one process with the whole batch gives.
#include "sullae/torch/parallel.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>
#include <sstream>

#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

constexpr std::int64_t kBatch =
    60;  // divisible by 1 to 5, and by 2 replicas of each of 1 to 3 ranks

// A fixed start, without libtorch's generator, which threads would share.
void set_values(torch::nn::Module& module) {
  const torch::NoGradGuard guard;
  std::int64_t seed = 1;
  for (auto& parameter : module.parameters()) {
    const auto flat = torch::arange(parameter.numel(), torch::kFloat64);
    parameter.copy_(
        (torch::sin(flat * 12.9898 + static_cast<double>(seed++)) * 0.3).view(parameter.sizes()));
  }
}

torch::Tensor values(std::vector<std::int64_t> shape, double seed) {
  std::int64_t count = 1;
  for (const auto size : shape) count *= size;
  return torch::sin(torch::arange(count, torch::kFloat64) * 7.31 + seed).view(shape);
}

torch::Tensor labels(int step) {
  return torch::remainder(torch::arange(kBatch, torch::kInt64) * 5 + step, 3);
}

// [begin, end) of a rank's part.
torch::Tensor part(const torch::Tensor& whole, std::int64_t index, std::int64_t parts) {
  return whole.narrow(0, index * whole.size(0) / parts, whole.size(0) / parts);
}

// An embedding with sparse gradients, a layer that is sometimes left out, and plain layers.
struct NetImpl : torch::nn::Cloneable<NetImpl> {
  NetImpl() { NetImpl::reset(); }
  void reset() override {
    embedding = register_module(
        "embedding", torch::nn::Embedding(torch::nn::EmbeddingOptions(11, 6).sparse(true)));
    first = register_module("first", torch::nn::Linear(6, 8));
    sometimes = register_module("sometimes", torch::nn::Linear(8, 8));
    last = register_module("last", torch::nn::Linear(8, 3));
    to(torch::kFloat64);
  }
  torch::Tensor forward(const torch::Tensor& words, bool use_sometimes) {
    auto x = torch::tanh(first(embedding(words)));
    if (use_sometimes) x = x + torch::tanh(sometimes(x));
    return last(x);
  }
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear first{nullptr}, sometimes{nullptr}, last{nullptr};
};
TORCH_MODULE(Net);

torch::Tensor words(int step) {
  return torch::remainder(torch::arange(kBatch, torch::kInt64) * (3 + step), 11);
}

struct Way {
  int replicas = 1;
  int passes = 1;
  bool average_weights = false;  // instead of gradients
};

// The weights after some steps with momentum.
std::vector<torch::Tensor> train(World* world, const Way& way) {
  Net net;
  set_values(*net);
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const int ranks = world == nullptr ? 1 : world->size();
  const int rank = world == nullptr ? 0 : world->rank();
  std::optional<DistributedOptimizer> distributed;
  if (world != nullptr && !way.average_weights) {
    distributed.emplace(sgd, net->named_parameters(),
                        DistributedOptimizerOptions{.backward_passes_per_step = way.passes},
                        *world);
  }
  std::optional<Replicas<NetImpl>> replicas;
  if (way.replicas > 1)
    replicas.emplace(scale_up(
        net, std::vector<torch::Device>(static_cast<std::size_t>(way.replicas), torch::kCPU)));
  for (int step = 0; step < 8; ++step) {
    const bool use_sometimes = step % 3 != 1;
    sgd.zero_grad();
    const auto mine = part(words(step), rank, ranks);
    const auto classes = part(labels(step), rank, ranks);
    const int parts = std::max(way.replicas, way.passes);
    const auto backward = [&](NetImpl& model, std::int64_t index) {
      const auto scores = model.forward(part(mine, index, parts), use_sometimes);
      (torch::nn::functional::cross_entropy(scores, part(classes, index, parts)) / parts)
          .backward();
    };
    if (replicas) {
      replicas->run([&](NetImpl& replica, std::size_t i) {
        backward(replica, static_cast<std::int64_t>(i));
      });
    } else {
      for (int pass = 0; pass < way.passes; ++pass) backward(*net, pass);
    }
    if (distributed) {
      distributed->step();
    } else {
      sgd.step();
    }
    if (world != nullptr && way.average_weights) {
      average_parameters(*net, *world);
      average_optimizer_state(sgd, *world);
    }
  }
  std::vector<torch::Tensor> weights;
  for (const auto& parameter : net->parameters()) weights.push_back(parameter.detach().clone());
  return weights;
}

void expect_close(const std::vector<torch::Tensor>& one, const std::vector<torch::Tensor>& other) {
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_LT((one[i] - other[i]).abs().max().item<double>(), 1e-10) << "parameter " << i;
}

void expect_like_one_process(const RanksOptions& ranks, const Way& way) {
  const auto alone = train(nullptr, {});
  std::mutex mutex;
  run_ranks(ranks, [&](World& world) {
    const auto weights = train(&world, way);
    const std::lock_guard lock(mutex);
    expect_close(alone, weights);
  });
}

TEST(ScaleUp, GivesWhatOneModelGives) {
  for (const int replicas : {2, 3, 5})
    expect_close(train(nullptr, {}), train(nullptr, {.replicas = replicas}));
}

TEST(ScaleUp, GoesTogetherWithScaleOut) {
  for (const int size : {1, 2, 3}) expect_like_one_process({.size = size}, {.replicas = 2});
  expect_like_one_process({.size = 3, .hosts = {2, 1}}, {.replicas = 2});
}

TEST(Accumulation, GivesWhatOneModelGives) {
  for (const int size : {1, 2, 3}) expect_like_one_process({.size = size}, {.passes = 2});
}

TEST(LocalSgd, AveragedAtEveryStepItIsPerStepAveraging) {
  for (const int size : {2, 3, 5})
    expect_like_one_process({.size = size}, {.average_weights = true});
}

TEST(LocalSgd, MomentsAreAveragedWhereSomeRanksHaveNone) {
  run_ranks({.size = 3}, [](World& world) {
    std::vector<torch::Tensor> weights;
    for (int i = 0; i < 3; ++i) weights.push_back(torch::ones({2}, torch::requires_grad()));
    Adam adam(weights, 0.1);
    const auto step = [&] {
      for (int i = 0; i < 3; ++i) weights[i].mutable_grad() = torch::Tensor();
      weights[0].mutable_grad() = torch::full({2}, world.rank() + 1.0);
      if (world.rank() == 1) weights[1].mutable_grad() = torch::full({2}, 6.0);
      adam.step();
    };
    step();
    average_optimizer_state(adam, world);
    const auto moment = [&](int i) {
      for (const auto& [key, state] : adam.state()) {
        std::ostringstream address;
        address << key;
        std::ostringstream wanted;
        wanted << weights[i].unsafeGetTensorImpl();
        if (address.str() == wanted.str())
          return static_cast<torch::optim::AdamParamState&>(*state).exp_avg();
      }
      return torch::Tensor();
    };
    EXPECT_TRUE(torch::allclose(moment(0), torch::full({2}, 0.2)));
    EXPECT_TRUE(torch::allclose(moment(1), torch::full({2}, 0.2)));
    EXPECT_FALSE(moment(2).defined()) << "no rank had a gradient";
    step();
  });
}

TEST(LocalSgd, SaysWhoseMomentsItDoesNotKnow) {
  run_ranks({.size = 2}, [](World& world) {
    const auto weight = torch::ones({2}, torch::requires_grad());
    torch::optim::RMSprop optimizer({weight});
    weight.mutable_grad() = torch::ones({2});
    optimizer.step();
    EXPECT_TRUE(contains(error_of([&] { average_optimizer_state(optimizer, world); }),
                         "expected an optimizer with the state of SGD, Adam or AdamW"));
  });
}

TEST(ScaleUp, ThrowsWhatAReplicaThrew) {
  Net net;
  auto replicas = scale_up(net, {torch::kCPU, torch::kCPU});
  EXPECT_EQ(replicas.size(), 2U);
  EXPECT_EQ(error_of([&] {
              replicas.run([](NetImpl&, std::size_t index) {
                if (index == 1) throw Error("replica 1 failed");
              });
            }),
            "replica 1 failed");
  EXPECT_FALSE(net->first->weight.grad().defined()) << "nothing is added after a failure";
}

struct RigidImpl : torch::nn::Module {};
TORCH_MODULE(Rigid);

TEST(ScaleUp, SaysWhatIsWrong) {
  EXPECT_TRUE(contains(error_of([] { scale_up(Net(), {}); }), "no devices were given"));
  EXPECT_TRUE(contains(error_of([] { scale_up(Rigid(), {torch::kCPU}); }), "cannot clone()"));
}

// Convolution, norm, convolution: gradients flow through the norm to what is before it.
struct NormedImpl : torch::nn::Module {
  explicit NormedImpl(bool affine) {
    before = register_module("before", torch::nn::Conv2d(2, 3, 3));
    norm = register_module("norm",
                           torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(3).affine(affine)));
    after = register_module("after", torch::nn::Conv2d(3, 2, 3));
    to(torch::kFloat64);
  }
  torch::nn::Conv2d before{nullptr}, after{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
};
TORCH_MODULE(Normed);

struct Outcome {
  std::vector<torch::Tensor> gradients;
  torch::Tensor mean;
  torch::Tensor variance;
};

Outcome run_normed(World* world, bool affine, bool uneven) {
  Normed net(affine);
  set_values(*net);
  auto input = values({kBatch, 2, 6, 6}, 0.5);
  std::int64_t total = kBatch;
  if (world != nullptr) {
    // Rank 0 has more than its share.
    const std::int64_t extra = uneven && world->size() > 1 ? 3 : 0;
    const std::int64_t share = kBatch / world->size();
    const std::int64_t begin = world->rank() == 0 ? 0 : world->rank() * share + extra;
    const std::int64_t end =
        world->rank() == world->size() - 1 ? kBatch : (world->rank() + 1) * share + extra;
    input = input.narrow(0, begin, end - begin);
  }
  const auto x = net->before(input);
  const auto normed = world == nullptr ? net->norm(x) : sync_batch_norm(x, *net->norm, *world);
  (net->after(normed).square().sum() / static_cast<double>(total)).backward();
  Outcome outcome{
      .gradients = {}, .mean = net->norm->running_mean, .variance = net->norm->running_var};
  for (auto& parameter : net->parameters()) {
    auto gradient = parameter.grad().clone();
    if (world != nullptr) allreduce(gradient, ReduceOp::sum, *world);
    outcome.gradients.push_back(gradient);
  }
  return outcome;
}

TEST(SyncBatchNorm, GivesWhatOneProcessWithTheWholeBatchGives) {
  for (const bool affine : {true, false}) {
    const auto alone = run_normed(nullptr, affine, false);
    for (const int size : {1, 2, 3, 5}) {
      for (const bool uneven : {false, true}) {
        std::mutex mutex;
        run_ranks({.size = size}, [&](World& world) {
          const auto outcome = run_normed(&world, affine, uneven);
          const std::lock_guard lock(mutex);
          expect_close(alone.gradients, outcome.gradients);
          expect_close({alone.mean, alone.variance}, {outcome.mean, outcome.variance});
        });
      }
    }
  }
}

TEST(SyncBatchNorm, UsesTheRunningValuesInEvaluation) {
  run_ranks({.size = 2}, [](World& world) {
    torch::nn::BatchNorm2d norm(2);
    norm->eval();
    const auto x = torch::full({1, 2, 1, 1}, world.rank() + 1.0);
    EXPECT_TRUE(torch::allclose(sync_batch_norm(x, *norm, world), x, 1e-4, 1e-4));
  });
}

TEST(SyncBatchNorm, StandsInPlaceOfBatchNorm) {
  init();
  torch::nn::Sequential net(torch::nn::Conv2d(1, 2, 3), SyncBatchNorm2d(2));
  torch::nn::Sequential other(torch::nn::Conv2d(1, 2, 3), torch::nn::BatchNorm2d(2));
  set_values(*net);
  set_values(*other);
  const auto x = values({3, 1, 6, 6}, 0.5).to(torch::kFloat32);
  for (const bool trains : {true, false}) {
    net->train(trains);
    other->train(trains);
    EXPECT_TRUE(torch::equal(net->forward(x), other->forward(x)));
  }
  const auto named = [](const torch::nn::Module& module) {
    return std::pair(module.named_parameters().keys(), module.named_buffers().keys());
  };
  EXPECT_EQ(named(*net), named(*other));
  std::ostringstream printed;
  printed << net;
  EXPECT_TRUE(contains(printed.str(), "sullae::SyncBatchNorm2d(2, eps=1e-05, momentum=0.1, "))
      << printed.str();
  EXPECT_EQ(error_of([&] {
              net[1]->as<SyncBatchNorm2d>()->forward(torch::ones({2, 2}));
            }),
            "SyncBatchNorm2d: the input has shape [2, 2], expected 4 dimensions");
  shutdown();
}

TEST(SyncBatchNorm, SaysWhatIsWrong) {
  run_ranks({.size = 1}, [](World& world) {
    torch::nn::BatchNorm2d norm(2);
    EXPECT_TRUE(contains(error_of([&] {
                           sync_batch_norm(torch::ones({4, 3, 1, 1}), *norm, world);
                         }),
                         "the input has shape [4, 3, 1, 1], expected [batch, 2, …]"));
  });
}

}  // namespace
}  // namespace sullae::testing

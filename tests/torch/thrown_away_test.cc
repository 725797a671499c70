// Backward passes in any number and at any moment, gradients that are thrown away, several optimizers: as in one process.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <limits>
#include <mutex>

#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

using Weights = std::vector<torch::Tensor>;

torch::nn::Sequential mlp(int in, int out, std::uint64_t seed) {
  torch::manual_seed(seed);
  torch::nn::Sequential net(torch::nn::Linear(in, 16), torch::nn::Tanh(), torch::nn::Linear(16, 16),
                            torch::nn::Tanh(), torch::nn::Linear(16, out));
  net->to(torch::kFloat64);
  return net;
}

torch::Tensor drawn(int rows, int columns, std::int64_t seed) {
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  return torch::randn({rows, columns}, torch::kFloat64);
}

constexpr int kRows = 12;

// This rank's rows of the batch of a step.
torch::Tensor part(const torch::Tensor& batch, const World& world) {
  const int rows = kRows / world.size();
  return batch.narrow(0, world.rank() * rows, rows);
}

Weights copy_of(const std::vector<torch::Tensor>& parameters) {
  Weights copies;
  for (const auto& parameter : parameters) copies.push_back(parameter.detach().clone());
  return copies;
}

// Small buckets, so that several are under way at any moment.
DistributedOptimizerOptions small_buckets(ReduceOp op = ReduceOp::average) {
  return {.op = op, .bucket_bytes = 256};
}

// What `program` makes of its weights is the same, whatever the number of ranks.
void expect_as_in_one_process(const std::function<Weights(World&)>& program) {
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
    return torch::nn::Sequential(std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone()));
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

class Clearing : public ::testing::TestWithParam<Clear> {};
INSTANTIATE_TEST_SUITE_P(Every, Clearing,
                         ::testing::Values(Clear::ours, Clear::optimizers_own, Clear::to_none));

TEST_P(Clearing, ABackwardThatIsThrownAwayLeavesNothing) {
  const Data data;
  expect_as_in_one_process([&](World& world) {
    Trained trained(data, world);
    for (int step = 0; step < 6; ++step) {
      const auto batch = part(data.batches[static_cast<std::size_t>(step)], world);
      trained.clear(GetParam());
      for (int again = 0; again < step % 3; ++again) {
        (trained.loss(batch) * 1000).backward();
        trained.clear(GetParam());
      }
      trained.loss(batch).backward();
      trained.optimizer.step();
    }
    return copy_of(trained.net->parameters());
  });
}

TEST_P(Clearing, AStepWhoseLossIsNotANumberIsLeftOut) {
  const Data data;
  expect_as_in_one_process([&](World& world) {
    Trained trained(data, world);
    for (int step = 0; step < 6; ++step) {
      const auto batch = part(data.batches[static_cast<std::size_t>(step)], world);
      trained.clear(GetParam());
      auto loss = trained.loss(batch);
      if (step % 2 == 1) loss = loss * std::numeric_limits<double>::quiet_NaN();
      loss.backward();
      if (step % 2 == 1) continue;
      trained.optimizer.step();
    }
    return copy_of(trained.net->parameters());
  });
}

TEST_P(Clearing, TwoOptimizersOfAGan) {
  const auto generator = mlp(2, 4, 2);
  const auto discriminator = mlp(4, 1, 3);
  std::vector<torch::Tensor> reals;
  std::vector<torch::Tensor> noises;
  for (int i = 0; i < 6; ++i) {
    reals.push_back(drawn(kRows, 4, 200 + i));
    noises.push_back(drawn(kRows, 2, 300 + i));
  }
  expect_as_in_one_process([&](World& world) {
    const auto clone = [](const torch::nn::Sequential& net) {
      return torch::nn::Sequential(
          std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone()));
    };
    auto g = clone(generator);
    auto d = clone(discriminator);
    torch::optim::SGD sgd_g(g->parameters(), torch::optim::SGDOptions(0.1).momentum(0.5));
    torch::optim::SGD sgd_d(d->parameters(), torch::optim::SGDOptions(0.1).momentum(0.5));
    DistributedOptimizer optimizer_g(sgd_g, g->named_parameters(), small_buckets(), world);
    DistributedOptimizer optimizer_d(sgd_d, d->named_parameters(), small_buckets(), world);
    const auto clear = [](DistributedOptimizer& ours, torch::optim::SGD& own,
                          torch::nn::Sequential& net) {
      if (GetParam() == Clear::ours) return ours.zero_grad();
      if (GetParam() == Clear::optimizers_own) return own.zero_grad();
      for (auto& parameter : net->parameters()) parameter.mutable_grad() = torch::Tensor();
    };
    const auto loss = [](const torch::Tensor& scores, double label) {
      return torch::binary_cross_entropy_with_logits(scores, torch::full_like(scores, label));
    };
    for (std::size_t step = 0; step < reals.size(); ++step) {
      clear(optimizer_d, sgd_d, d);
      loss(d->forward(part(reals[step], world)), 1).backward();
      const auto fake = g->forward(part(noises[step], world));
      loss(d->forward(fake.detach()), 0).backward();
      optimizer_d.step();
      // Gradients of the discriminator come here too, and are thrown away.
      clear(optimizer_g, sgd_g, g);
      loss(d->forward(fake), 1).backward();
      optimizer_g.step();
    }
    auto weights = copy_of(g->parameters());
    const auto more = copy_of(d->parameters());
    weights.insert(weights.end(), more.begin(), more.end());
    return weights;
  });
}

class Operations : public ::testing::TestWithParam<ReduceOp> {};
INSTANTIATE_TEST_SUITE_P(Every, Operations, ::testing::Values(ReduceOp::average, ReduceOp::sum));

TEST_P(Operations, AnyNumberOfBackwardPassesAddsUp) {
  const Data data;
  for (const bool overlap : {true, false}) {
    for (const int planned : {1, 2}) {
      expect_as_in_one_process([&](World& world) {
        auto options = small_buckets(GetParam());
        options.overlap = overlap;
        options.backward_passes_per_step = planned;
        Trained trained(data, world, options);
        // What the ranks have adds up to the whole where it is summed.
        const double share = GetParam() == ReduceOp::sum ? 1.0 / world.size() : 1.0;
        for (std::size_t step = 0; step < 6; ++step) {
          if (step != 3) trained.optimizer.zero_grad();  // and once gradients are added to the last step's
          for (std::size_t pass = 0; pass < 1 + step % 3; ++pass)
            (trained.loss(part(data.batches[step + pass], world)) * share).backward();
          trained.optimizer.step();
        }
        return copy_of(trained.net->parameters());
      });
    }
  }
}

TEST_P(Operations, AGraphMayBeUsedTwice) {
  const Data data;
  expect_as_in_one_process([&](World& world) {
    Trained trained(data, world, small_buckets(GetParam()));
    const double share = GetParam() == ReduceOp::sum ? 1.0 / world.size() : 1.0;
    for (std::size_t step = 0; step < 4; ++step) {
      trained.optimizer.zero_grad();
      const auto loss = trained.loss(part(data.batches[step], world)) * share;
      loss.backward({}, /*retain_graph=*/true);
      loss.backward();
      trained.optimizer.step();
    }
    return copy_of(trained.net->parameters());
  });
}

TEST(Clipping, GoesBetweenSynchronizeAndStep) {
  const Data data;
  expect_as_in_one_process([&](World& world) {
    Trained trained(data, world);
    for (std::size_t step = 0; step < 4; ++step) {
      if (step != 2) trained.optimizer.zero_grad();
      trained.loss(part(data.batches[step], world)).backward();
      trained.optimizer.synchronize();
      torch::nn::utils::clip_grad_norm_(trained.net->parameters(), 0.01);
      trained.optimizer.step();
    }
    return copy_of(trained.net->parameters());
  });
}

TEST(ZeroGrad, BeforeAStepLeavesNothingToStepWith) {
  const Data data;
  expect_as_in_one_process([&](World& world) {
    Trained trained(data, world);
    for (std::size_t step = 0; step < 4; ++step) {
      trained.loss(part(data.batches[step], world)).backward();
      if (step % 2 == 1) trained.clear(step == 1 ? Clear::ours : Clear::to_none);
      trained.optimizer.step();
      trained.optimizer.zero_grad();
    }
    return copy_of(trained.net->parameters());
  });
}

struct Failing : torch::autograd::Function<Failing> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& input) {
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    throw std::runtime_error("in the middle");
  }
};

TEST(Exceptions, InTheMiddleOfBackwardMayBeCaught) {
  const Data data;
  expect_as_in_one_process([&](World& world) {
    Trained trained(data, world);
    for (std::size_t step = 0; step < 5; ++step) {
      const auto batch = part(data.batches[step], world);
      trained.optimizer.zero_grad();
      if (step % 2 == 1) {
        // The last layers have their gradients when it happens.
        auto hidden = Failing::apply(trained.net[0]->as<torch::nn::Linear>()->forward(batch));
        for (std::size_t layer = 1; layer < trained.net->size(); ++layer) {
          hidden = layer % 2 == 1 ? torch::tanh(hidden)
                                  : trained.net[layer]->as<torch::nn::Linear>()->forward(hidden);
        }
        EXPECT_THROW(hidden.pow(2).mean().backward(), std::runtime_error);
        trained.optimizer.zero_grad();
      }
      trained.loss(batch).backward();
      trained.optimizer.step();
    }
    return copy_of(trained.net->parameters());
  });
}

// On one rank as on two.
TEST(Mistakes, AreTheSameErrorOnAnyNumberOfRanks) {
  const Data data;
  for (const int size : {1, 2}) {
    for (const bool first_step : {true, false}) {
      run_ranks({.size = size}, [&](World& world) {
        Trained trained(data, world);
        const auto backward = [&](std::size_t step) {
          trained.loss(part(data.batches[step], world)).backward();
        };
        if (!first_step) {
          backward(0);
          trained.optimizer.step();
          trained.optimizer.zero_grad();
        }
        backward(1);
        {
          const torch::NoGradGuard guard;
          for (auto& parameter : trained.net->parameters()) parameter.mutable_grad().mul_(0.1);
        }
        const auto error = error_of([&] { trained.optimizer.step(); });
        EXPECT_TRUE(contains(error, "was changed between backward() and synchronize()")) << error;
        EXPECT_TRUE(contains(error, "call synchronize() first, then clip")) << error;
        trained.optimizer.zero_grad();
        backward(2);
        trained.optimizer.step();
      });
    }
    run_ranks({.size = size}, [&](World& world) {
      Trained trained(data, world, small_buckets(ReduceOp::adasum));
      for (int step = 0; step < 2; ++step) {
        trained.optimizer.zero_grad();
        trained.loss(part(data.batches[0], world)).backward();
        const auto error =
            error_of([&] { trained.loss(part(data.batches[1], world)).backward(); });
        EXPECT_TRUE(contains(error, "which op adasum cannot add to: call zero_grad()")) << error;
        trained.optimizer.zero_grad();
        trained.loss(part(data.batches[0], world)).backward();
        trained.optimizer.step();
      }
    });
  }
}

TEST(Mistakes, OptimizersMustCoverTheirParametersAndShareNone) {
  const Data data;
  for (const int size : {1, 2}) {
    run_ranks({.size = size}, [&](World& world) {
      auto net = data.clone();
      torch::optim::SGD sgd(net->parameters(), 0.1);
      auto some = net->named_parameters();
      torch::OrderedDict<std::string, torch::Tensor> fewer;
      for (std::size_t i = 0; i + 1 < some.size(); ++i) fewer.insert(some[i].key(), some[i].value());
      auto error = error_of([&] { DistributedOptimizer(sgd, fewer, {}, world); });
      EXPECT_TRUE(contains(error, "the optimizer updates 1 more parameter (the first [1])")) << error;
      auto more = net->named_parameters();
      more.insert("extra", torch::ones({5, 5}, torch::kFloat64).requires_grad_());
      error = error_of([&] { DistributedOptimizer(sgd, more, {}, world); });
      EXPECT_TRUE(contains(error, "parameter 'extra' [5, 5] is none that the optimizer updates"))
          << error;
      const DistributedOptimizer first(sgd, net->named_parameters(), {}, world);
      error = error_of([&] { DistributedOptimizer(sgd, net->named_parameters(), {}, world); });
      EXPECT_TRUE(contains(error, "parameter '0.weight' belongs to another DistributedOptimizer"))
          << error;
      EXPECT_TRUE(contains(error, "into one optimizer, as groups")) << error;
    });
  }
}

TEST(Mistakes, ADifferentNumberOfBackwardPassesIsToldToAll) {
  const Data data;
  run_ranks({.size = 2}, [&](World& world) {
    Trained trained(data, world);
    std::string error;
    for (std::size_t step = 0; step < 4 && error.empty(); ++step) {
      try {
        trained.optimizer.zero_grad();
        trained.loss(part(data.batches[step], world)).backward();
        if (step == 2 && world.rank() == 1) {
          trained.optimizer.zero_grad();
          trained.loss(part(data.batches[step], world)).backward();
        }
        trained.optimizer.step();
      } catch (const MismatchError& mismatch) {
        error = mismatch.what();
      }
    }
    EXPECT_TRUE(contains(error, "4.weight' of plan")) << error;
    EXPECT_TRUE(contains(error, "once more (1)")) << error;
    EXPECT_TRUE(contains(error, "run backward() and clear gradients equally often")) << error;
  });
}

}  // namespace
}  // namespace sullae::testing

// Backward passes in any number and at any moment, gradients that are thrown away, several
// optimizers: as in one process.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "torch/small_net.h"

namespace sullae::testing {
namespace {

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
          if (step != 3)
            trained.optimizer.zero_grad();  // and once gradients are added to the last step's
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

// An autoencoder whose two halves are one module, say.
TEST(SharedWeights, AreOneParameter) {
  const Data data;
  expect_as_in_one_process([&](World& world) {
    torch::nn::Linear half(4, 4);
    {
      const torch::NoGradGuard guard;
      half->to(torch::kFloat64);
      for (auto& parameter : half->parameters()) parameter.fill_(0.25);
    }
    torch::nn::Sequential twice;
    twice->push_back("one", half);
    twice->push_back("other", half);
    torch::optim::SGD sgd(half->parameters(), 0.1);
    DistributedOptimizer optimizer(sgd, twice->named_parameters(), small_buckets(), world);
    for (std::size_t step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      const auto batch = part(data.batches[step], world);
      (twice->forward(batch) - batch).pow(2).mean().backward();
      optimizer.step();
    }
    return copy_of(half->parameters());
  });
}

}  // namespace
}  // namespace sullae::testing

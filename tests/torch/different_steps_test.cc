// Ranks whose steps differ: in number, in the gradients that they have, in the optimizer.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <fstream>

#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

struct TwoBranchesImpl : torch::nn::Module {
  torch::nn::Linear left{nullptr}, right{nullptr}, head{nullptr};
  TwoBranchesImpl() {
    left = register_module("left", torch::nn::Linear(5, 7));
    right = register_module("right", torch::nn::Linear(5, 7));
    head = register_module("head", torch::nn::Linear(7, 1));
    to(torch::kFloat64);
    const torch::NoGradGuard guard;
    for (auto& parameter : parameters())
      parameter.copy_(torch::linspace(-0.5, 0.7, parameter.numel()).reshape(parameter.sizes()));
  }
  torch::Tensor forward(const torch::Tensor& x, bool use_right) {
    return head(torch::tanh((use_right ? right : left)->forward(x))).sum();
  }
};
TORCH_MODULE(TwoBranches);

torch::Tensor input(int rank, int step) {
  return torch::linspace(-1, 1 + 0.1 * rank + 0.01 * step, 15, torch::kFloat64).reshape({3, 5});
}

void expect_same(const torch::nn::Module& a, const torch::nn::Module& b) {
  const auto ours = a.parameters();
  const auto theirs = b.parameters();
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_LT((ours[i] - theirs[i]).abs().max().item<double>(), 1e-12) << i;
}

class EverySetting : public ::testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(DifferentSteps, EverySetting, ::testing::ValuesIn(every_setting()),
                         [](const auto& setting) { return setting.param.name; });

// As one process that adds up the gradients of the ranks that still have data.
TEST_P(EverySetting, RanksThatRunOutOfDataJoin) {
  const int size = GetParam().ranks.size;
  const auto steps_of = [](int rank) {
    return 2 + rank * 3 % 5;
  };
  int most = 0;
  for (int rank = 0; rank < size; ++rank) most = std::max(most, steps_of(rank));
  TwoBranches expected;
  torch::optim::SGD one(expected->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < most; ++step) {
    one.zero_grad();
    for (int rank = 0; rank < size; ++rank) {
      if (step < steps_of(rank)) (expected->forward(input(rank, step), false) / size).backward();
    }
    one.step();
  }
  int last = 0;
  for (int rank = 0; rank < size; ++rank) {
    if (steps_of(rank) == most) last = rank;
  }
  run_ranks(GetParam().ranks, [&](World& world) {
    TwoBranches model;
    torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    DistributedOptimizer optimizer(sgd, model->named_parameters(), {.bucket_bytes = 100}, world);
    for (int step = 0; step < steps_of(world.rank()); ++step) {
      optimizer.zero_grad();
      model->forward(input(world.rank(), step), false).backward();
      optimizer.step();
    }
    EXPECT_EQ(optimizer.join(), last);
    expect_same(*model, *expected);
  });
}

// A rank that only follows knows of no clipping and no schedule.
TEST_P(EverySetting, WhatIsDoneAroundStepsIsThatOfTheLastToJoin) {
  run_ranks(GetParam().ranks, [&](World& world) {
    TwoBranches model;
    torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    DistributedOptimizer optimizer(sgd, model->named_parameters(), {.bucket_bytes = 100}, world);
    for (int step = 0; step < 2 + 2 * world.rank(); ++step) {
      optimizer.zero_grad();
      model->forward(input(world.rank(), step), false).backward();
      torch::nn::utils::clip_grad_norm_(model->parameters(), 1e-2);
      optimizer.step();
      sgd.param_groups()[0].options().set_lr(0.1 / (step + 2));
    }
    const int last = optimizer.join();
    EXPECT_EQ(last, world.size() - 1);
    for (const torch::Tensor& parameter : model->parameters()) {
      torch::Tensor theirs = parameter.detach().clone();
      broadcast(theirs, last, world);
      EXPECT_TRUE(torch::equal(theirs, parameter));
    }
    double rate = sgd.param_groups()[0].options().get_lr();
    world.broadcast(&rate, 1, DataType::float64, last);
    EXPECT_EQ(rate, sgd.param_groups()[0].options().get_lr());
  });
}

// Which branch is used changes with the step and the rank, then stays, then changes again.
TEST_P(EverySetting, BranchesThatChangeGiveWhatOneProcessGives) {
  const int size = GetParam().ranks.size;
  constexpr int kSteps = 40;
  const auto use_right = [](int rank, int step) {
    return (step < 10 || step > 35) && (rank + step) % 3 == 0;
  };
  TwoBranches expected;
  torch::optim::SGD one(expected->parameters(), 0.1);
  for (int step = 0; step < kSteps; ++step) {
    one.zero_grad();
    for (int rank = 0; rank < size; ++rank)
      (expected->forward(input(rank, step), use_right(rank, step)) / size).backward();
    one.step();
  }
  run_ranks(GetParam().ranks, [&](World& world) {
    TwoBranches model;
    torch::optim::SGD sgd(model->parameters(), 0.1);
    DistributedOptimizer optimizer(sgd, model->named_parameters(), {.bucket_bytes = 100}, world);
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      model->forward(input(world.rank(), step), use_right(world.rank(), step)).backward();
      optimizer.step();
    }
    expect_same(*model, *expected);
  });
}

struct TwoTablesImpl : torch::nn::Module {
  torch::nn::Embedding left{nullptr}, right{nullptr};
  TwoTablesImpl() {
    const auto options = torch::nn::EmbeddingOptions(11, 3).sparse(true);
    left = register_module("left", torch::nn::Embedding(options));
    right = register_module("right", torch::nn::Embedding(options));
    to(torch::kFloat64);
    const torch::NoGradGuard guard;
    for (auto& parameter : parameters())
      parameter.copy_(torch::linspace(-0.5, 0.7, parameter.numel()).reshape(parameter.sizes()));
  }
  torch::Tensor forward(int rank, int step, bool use_right) {
    const auto words =
        torch::tensor({std::int64_t{1} + rank % 3, std::int64_t{2} + step, std::int64_t{7}});
    return torch::tanh((use_right ? right : left)->forward(words)).sum();
  }
};
TORCH_MODULE(TwoTables);

// Nobody used the table when the first step's gradients were reduced.
TEST_P(EverySetting, GradientsThatComeLaterMayBeSparse) {
  const int size = GetParam().ranks.size;
  constexpr int kSteps = 8;
  constexpr int kFirst = 2;
  const auto use_right = [](int rank, int step) {
    return step >= kFirst && (rank + step) % 2 == 0;
  };
  TwoTables expected;
  torch::optim::SGD one(expected->parameters(), 0.1);
  for (int step = 0; step < kSteps; ++step) {
    one.zero_grad();
    for (int rank = 0; rank < size; ++rank)
      (expected->forward(rank, step, use_right(rank, step)) / size).backward();
    one.step();
  }
  run_ranks(GetParam().ranks, [&](World& world) {
    TwoTables model;
    torch::optim::SGD sgd(model->parameters(), 0.1);
    DistributedOptimizer optimizer(sgd, model->named_parameters(), {}, world);
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      model->forward(world.rank(), step, use_right(world.rank(), step)).backward();
      optimizer.synchronize();
      for (const auto& table : {model->left, model->right}) {
        const torch::Tensor& gradient = table->weight.grad();
        EXPECT_TRUE(!gradient.defined() || gradient.is_sparse()) << step;
      }
      EXPECT_TRUE(size == 1 || step < kFirst || model->right->weight.grad().defined()) << step;
      optimizer.step();
    }
    expect_same(*model, *expected);
  });
}

std::size_t negotiated_buckets(const std::filesystem::path& timeline) {
  std::ifstream file(timeline);
  std::size_t found = 0;
  for (std::string line; std::getline(file, line);) {
    if (contains(line, "NEGOTIATE") && contains(line, "bucket")) ++found;
  }
  return found;
}

TEST(DifferentSteps, AreNegotiatedUntilTheyAreAlikeAgain) {
  const TemporaryDirectory directory;
  run_ranks({.size = 2}, [&](World& world) {
    TwoBranches model;
    torch::optim::SGD sgd(model->parameters(), 0.1);
    DistributedOptimizer optimizer(sgd, model->named_parameters(), {.bucket_bytes = 100}, world);
    const auto train = [&](const char* name, int steps, int unusual_rank) {
      const auto file = directory.path() / name;
      world.start_timeline(file);
      for (int step = 0; step < steps; ++step) {
        optimizer.zero_grad();
        model->forward(input(world.rank(), step), world.rank() == unusual_rank).backward();
        optimizer.step();
      }
      world.stop_timeline();
      return negotiated_buckets(file);
    };
    const auto planned = train("planned.json", 5, -1);
    const auto different = train("different.json", 5, 1);
    const auto returning = train("returning.json", 15, -1);
    const auto again = train("again.json", 5, -1);
    if (world.rank() != 0) return;  // rank 0 writes the file
    EXPECT_EQ(planned, 0U);
    EXPECT_GT(different, 0U);
    EXPECT_GT(returning, 0U);
    EXPECT_EQ(again, 0U);
  });
}

// As when one rank of a GAN steps the discriminator and another the generator.
TEST(DifferentSteps, OfAnotherOptimizerAreToldOnEveryRankWithBothNames) {
  for (const std::string transport : {"shm", "ucx"}) {
    const auto errors = run_ranks_catching({.size = 3, .transport = transport}, [](World& world) {
      TwoBranches first;
      TwoBranches second;
      torch::optim::SGD sgd_first(first->parameters(), 0.1);
      torch::optim::SGD sgd_second(second->parameters(), 0.1);
      DistributedOptimizer one(sgd_first, first->named_parameters(), {}, world);
      DistributedOptimizer two(sgd_second, second->named_parameters(), {}, world);
      const auto step = [&](TwoBranches& model, DistributedOptimizer& optimizer) {
        optimizer.zero_grad();
        model->forward(input(world.rank(), 0), false).backward();
        optimizer.step();
      };
      step(first, one);
      step(second, two);
      if (world.rank() == 1) {
        step(second, two);
      } else {
        step(first, one);
      }
    });
    for (const std::string& error : errors) {
      EXPECT_TRUE(contains(error, "ranks disagree about the collective: rank ")) << error;
      EXPECT_TRUE(contains(error, " for 'bucket 0: head.bias … ")) << error;
      EXPECT_TRUE(contains(error, " for 'optimizer 1 bucket 0: head.bias … ")) << error;
    }
  }
}

TEST(DifferentSteps, OptionsThatDifferAreToldOnEveryRank) {
  const auto errors = run_ranks_catching({.size = 3}, [](World& world) {
    TwoBranches model;
    torch::optim::SGD sgd(model->parameters(), 0.1);
    const DistributedOptimizer optimizer(
        sgd, model->named_parameters(),
        {.bucket_bytes = world.rank() == 2 ? std::size_t{64} : std::size_t{128}}, world);
  });
  for (const std::string& error : errors) {
    EXPECT_EQ(error,
              "DistributedOptimizer: ranks disagree: it is made with op=average "
              "backward_passes_per_step=1 bucket_bytes=128 compression='' sparse_as_dense=false on "
              "rank 0, but made with "
              "op=average backward_passes_per_step=1 bucket_bytes=64 compression='' "
              "sparse_as_dense=false on rank 2");
  }
}

}  // namespace
}  // namespace sullae::testing

// Gradients that are averages when backward() returns, and gradients without an optimizer of
// libtorch's.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "torch/small_net.h"

namespace sullae::testing {
namespace {

DistributedOptimizerOptions after_backward(int passes = 1) {
  auto options = small_buckets();
  options.after_backward = DistributedOptimizerOptions().after_backward;
  EXPECT_TRUE(options.after_backward) << "as whoever comes from DDP expects it";
  options.backward_passes_per_step = passes;
  return options;
}

TEST(AfterBackward, GradientsMayBeClippedWithoutAnotherCall) {
  const Data data;
  expect_as_in_one_process([&](World& world) {
    Trained trained(data, world, after_backward());
    for (std::size_t step = 0; step < 6; ++step) {
      trained.optimizer.zero_grad();
      trained.loss(part(data.batches[step], world)).backward();
      torch::nn::utils::clip_grad_norm_(trained.net->parameters(), 0.01);
      trained.optimizer.step();
    }
    return copy_of(trained.net->parameters());
  });
}

// As those who come from DDP call it.
TEST(AfterBackward, TheOptimizersOwnStepWillDo) {
  const Data data;
  for (const int passes : {1, 2}) {
    expect_as_in_one_process([&](World& world) {
      Trained trained(data, world, after_backward(passes));
      for (std::size_t step = 0; step < 4; ++step) {
        // One that is thrown away does not count.
        trained.loss(part(data.batches[7], world)).backward();
        trained.sgd.zero_grad();
        for (int pass = 0; pass < passes; ++pass)
          trained.loss(part(data.batches[step], world)).backward();
        trained.sgd.step();
        trained.sgd.zero_grad();
      }
      return copy_of(trained.net->parameters());
    });
  }
}

TEST(AfterBackward, OptimizersMayEvaluateTheModelThemselves) {
  const Data data;
  expect_as_in_one_process([&](World& world) {
    auto net = data.clone();
    torch::optim::LBFGS lbfgs(
        net->parameters(),
        torch::optim::LBFGSOptions(0.5).max_iter(6).line_search_fn("strong_wolfe"));
    DistributedOptimizer optimizer(lbfgs, net->named_parameters(), small_buckets(), world);
    EXPECT_TRUE(contains(error_of([&] { optimizer.step(); }), "LBFGS evaluates the model itself"));
    for (std::size_t step = 0; step < 3; ++step) {
      const auto loss = optimizer.step([&] {
        optimizer.zero_grad();
        auto value = (net->forward(part(data.batches[0], world)) - 1).pow(2).mean();
        value.backward();
        return value;
      });
      EXPECT_GT(loss.item<double>(), 0);
    }
    return copy_of(net->parameters());
  });
}

TEST(AfterBackward, TheLastOfSeveralPassesWaits) {
  const Data data;
  expect_as_in_one_process([&](World& world) {
    Trained trained(data, world, after_backward(2));
    for (std::size_t step = 0; step < 4; ++step) {
      for (std::size_t pass = 0; pass < 2; ++pass)
        (trained.loss(part(data.batches[2 * step + pass], world)) / 2).backward();
      torch::nn::utils::clip_grad_norm_(trained.net->parameters(), 0.01);
      trained.optimizer.step();
      trained.optimizer.zero_grad();
    }
    return copy_of(trained.net->parameters());
  });
}

// More passes than planned, and passes that are thrown away, are right, too.
TEST(AfterBackward, UnplannedPassesAddUp) {
  const Data data;
  expect_as_in_one_process([&](World& world) {
    Trained trained(data, world, after_backward());
    for (std::size_t step = 0; step < 4; ++step) {
      (trained.loss(part(data.batches[7], world)) * 1000).backward();
      trained.optimizer.zero_grad();
      for (std::size_t pass = 0; pass < 2; ++pass)
        trained.loss(part(data.batches[step + pass], world)).backward();
      trained.optimizer.step();
      trained.optimizer.zero_grad();
    }
    return copy_of(trained.net->parameters());
  });
}

TEST(AfterBackward, ADeathIsThrownByTheStep) {
  const Data data;
  run_ranks({.size = 2, .timeout = std::chrono::milliseconds(2000)}, [&](World& world) {
    Trained trained(data, world, after_backward());
    const auto step = [&] {
      trained.optimizer.zero_grad();
      trained.loss(part(data.batches[0], world)).backward();
      trained.optimizer.step();
    };
    step();
    if (world.rank() == 1) return;  // leaves
    EXPECT_THROW(step(), PeerError);
  });
  // Whoever calls the optimizer's own step hears it with the next backward.
  run_ranks({.size = 2, .timeout = std::chrono::milliseconds(2000)}, [&](World& world) {
    Trained trained(data, world, after_backward());
    const auto step = [&] {
      trained.loss(part(data.batches[0], world)).backward();
      trained.sgd.step();
    };
    step();
    if (world.rank() == 1) return;
    step();
    EXPECT_THROW(step(), PeerError);
  });
}

// Steps of another kind of optimizer: plain descent by hand.
TEST(DistributedGradients, ServeAnyOptimizer) {
  const Data data;
  expect_as_in_one_process([&](World& world) {
    auto net = data.clone();
    DistributedGradients gradients(net->named_parameters(), small_buckets(), world);
    for (std::size_t step = 0; step < 6; ++step) {
      net->forward(part(data.batches[step], world)).pow(2).mean().backward();
      gradients.synchronize();
      {
        const torch::NoGradGuard guard;
        for (auto& parameter : net->parameters()) parameter.sub_(parameter.grad(), 0.1);
      }
      gradients.stepped();
      gradients.zero_grad();
    }
    return copy_of(net->parameters());
  });
}

// Rows of a table as dense values, and sparse again for the optimizer.
TEST(DistributedGradients, OfTablesMayTravelAsDenseOnes) {
  for (const bool as_dense : {false, true}) {
    run_ranks({.size = 2}, [&](World& world) {
      torch::nn::Embedding table(torch::nn::EmbeddingOptions(10, 2).sparse(true));
      auto options = small_buckets(ReduceOp::sum);
      options.sparse_as_dense = as_dense;
      DistributedGradients gradients(table->named_parameters(), options, world);
      for (int step = 0; step < 3; ++step) {
        table->forward(torch::tensor({1, 2 + 3 * world.rank()})).sum().backward();
        gradients.synchronize();
        const auto gradient = table->weight.grad();
        EXPECT_TRUE(gradient.is_sparse());
        auto expected = torch::zeros({10, 2});
        expected[1] = 2;
        expected[2] = 1;
        expected[5] = 1;
        EXPECT_TRUE(torch::equal(gradient.to_dense(), expected));
        gradients.stepped();
        gradients.zero_grad();
      }
    });
  }
}

// Whatever their type: rows of 16 bits are summed in 32.
TEST(DistributedGradients, OfTablesIn16BitsStaySparse) {
  run_ranks({.size = 2}, [&](World& world) {
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(10, 2).sparse(true));
    table->to(torch::kBFloat16);
    DistributedGradients gradients(table->named_parameters(), small_buckets(ReduceOp::average),
                                   world);
    for (int step = 0; step < 3; ++step) {
      table->forward(torch::tensor({1, 1, 2 + 3 * world.rank()})).sum().backward();
      gradients.synchronize();
      const auto gradient = table->weight.grad();
      ASSERT_TRUE(gradient.is_sparse());
      EXPECT_EQ(gradient.scalar_type(), torch::kBFloat16);
      auto expected = torch::zeros({10, 2});
      expected[1] = 2;
      expected[2] = 0.5;
      expected[5] = 0.5;
      EXPECT_TRUE(torch::equal(gradient.to(torch::kFloat32).to_dense(), expected));
      gradients.stepped();
      gradients.zero_grad();
    }
  });
}

}  // namespace
}  // namespace sullae::testing

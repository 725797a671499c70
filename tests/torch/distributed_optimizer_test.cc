#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sullae/torch.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

torch::OrderedDict<std::string, torch::Tensor> named(
    std::initializer_list<std::pair<std::string, torch::Tensor>> list) {
  torch::OrderedDict<std::string, torch::Tensor> parameters;
  for (const auto& [key, tensor] : list) parameters.insert(key, tensor);
  return parameters;
}

torch::Tensor parameter(std::vector<double> values) {
  return torch::tensor(values, torch::kFloat64).requires_grad_();
}

TEST(DistributedOptimizer, AParameterUsedByOneRankAloneGetsItsShare) {
  run_ranks({.size = 2}, [](World& world) {
    auto a = parameter({1.0});
    auto b = parameter({1.0});
    torch::optim::SGD sgd({a, b}, 1.0);
    DistributedOptimizer optimizer(sgd, named({{"a", a}, {"b", b}}), {}, world);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      // Rank 1 never uses b.
      auto loss = world.rank() == 0 ? a * 2.0 + b * 4.0 : a * 2.0;
      loss.backward();
      optimizer.synchronize();
      EXPECT_EQ(a.grad().item<double>(), 2.0);
      EXPECT_EQ(b.grad().item<double>(), 2.0);
      optimizer.step();
    }
    EXPECT_EQ(b.item<double>(), 1.0 - 3 * 2.0);
  });
}

TEST(DistributedOptimizer, AParameterUsedByNoRankKeepsNoGradient) {
  run_ranks({.size = 2}, [](World& world) {
    auto a = parameter({1.0});
    auto b = parameter({1.0});
    torch::optim::SGD sgd({a, b}, 1.0);
    DistributedOptimizer optimizer(sgd, named({{"a", a}, {"b", b}}), {}, world);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      (step == 1 ? a + b : a * 1.0).backward();
      optimizer.synchronize();
      EXPECT_EQ(b.grad().defined(), step == 1);
      optimizer.step();
    }
  });
}

TEST(DistributedOptimizer, LibtorchsOwnZeroGradWorksToo) {
  run_ranks({.size = 2}, [](World& world) {
    auto a = parameter({5.0, 7.0});
    torch::optim::SGD sgd({a}, 1.0);
    DistributedOptimizer optimizer(sgd, named({{"a", a}}), {}, world);
    for (int step = 0; step < 4; ++step) {
      sgd.zero_grad();
      (a * static_cast<double>(world.rank() + step)).sum().backward();
      optimizer.synchronize();
      EXPECT_EQ(a.grad()[1].item<double>(), 0.5 + step);
      optimizer.step();
    }
  });
}

TEST(DistributedOptimizer, SumsWhenAskedTo) {
  run_ranks({.size = 3}, [](World& world) {
    auto a = parameter({0.0});
    torch::optim::SGD sgd({a}, 1.0);
    DistributedOptimizer optimizer(sgd, named({{"a", a}}), {.op = ReduceOp::sum}, world);
    (a * static_cast<double>(world.rank() + 1)).backward();
    optimizer.step();
    EXPECT_EQ(a.item<double>(), -6.0);
  });
}

TEST(DistributedOptimizer, AdasumCombinesEachParameterByItself) {
  for (const int size : {2, 3}) {
    run_ranks({.size = size}, [](World& world) {
      auto alike = parameter({1.0, 1.0});
      auto different = parameter(std::vector<double>(3, 1.0));
      torch::optim::SGD sgd({alike, different}, 1.0);
      DistributedOptimizer optimizer(sgd, named({{"alike", alike}, {"different", different}}),
                                     {.op = ReduceOp::adasum}, world);
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        // The gradients of one are equal on all ranks, of the other orthogonal.
        ((alike * 2.0).sum() + different[world.rank()] * 5.0).backward();
        optimizer.synchronize();
        EXPECT_NEAR(alike.grad()[0].item<double>(), 2.0, 1e-12);
        for (int i = 0; i < 3; ++i)
          EXPECT_NEAR(different.grad()[i].item<double>(), i < world.size() ? 5.0 : 0.0, 1e-12);
        optimizer.step();
      }
    });
  }
}

TEST(DistributedOptimizer, GradientsAndBackwardOutliveIt) {
  run_ranks({.size = 2}, [](World& world) {
    auto a = parameter({1.0, 2.0});
    torch::optim::SGD sgd({a}, 0.5);
    {
      DistributedOptimizer optimizer(sgd, named({{"a", a}}), {}, world);
      a.sum().backward();
      optimizer.step();
    }
    EXPECT_EQ(a.grad()[0].item<double>(), 1.0);
    a.sum().backward();
    EXPECT_EQ(a.grad()[0].item<double>(), 2.0);
  });
}

TEST(DistributedOptimizer, MixedElementTypesGoInBucketsOfTheirOwn) {
  run_ranks({.size = 2}, [](World& world) {
    auto wide = torch::ones({3}, torch::kFloat64).requires_grad_();
    auto narrow = torch::ones({5}, torch::kBFloat16).requires_grad_();
    auto middle = torch::ones({7}, torch::kFloat32).requires_grad_();
    torch::optim::SGD sgd({wide, narrow, middle}, 1.0);
    DistributedOptimizer optimizer(sgd, named({{"w", wide}, {"n", narrow}, {"m", middle}}), {},
                                   world);
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      const double factor = world.rank() + 1;
      (wide.sum() * factor + (narrow.sum() * factor).to(torch::kFloat64) +
       (middle.sum() * factor).to(torch::kFloat64))
          .backward();
      optimizer.synchronize();
      EXPECT_EQ(wide.grad()[0].item<double>(), 1.5);
      EXPECT_EQ(narrow.grad()[4].item<float>(), 1.5F);
      EXPECT_EQ(middle.grad()[6].item<float>(), 1.5F);
      optimizer.step();
    }
  });
}

// A parameter that nobody uses, one that rank 1 alone does not use, and compressed gradients of
// both.
TEST(DistributedOptimizer, CompressedGradientsTrain) {
  for (const std::string compression : {"float16", "bfloat16", "topk:0.2"}) {
    run_ranks({.size = 2}, [&](World& world) {
      auto a = torch::ones({50}).requires_grad_();
      auto b = torch::ones({50}).requires_grad_();
      auto unused = torch::ones({3}).requires_grad_();
      torch::optim::SGD sgd({a, b, unused}, 0.05);
      DistributedOptimizer optimizer(sgd, named({{"a", a}, {"b", b}, {"unused", unused}}),
                                     {.compression = compression}, world);
      for (int step = 0; step < 200; ++step) {
        optimizer.zero_grad();
        auto loss = (a - 3).square().sum();
        if (world.rank() == 0) loss = loss + (b + 2).square().sum();
        loss.backward();
        optimizer.step();
      }
      EXPECT_NEAR(a.mean().item<float>(), 3, 0.05) << compression;
      EXPECT_NEAR(b.mean().item<float>(), -2, 0.05) << compression;
      EXPECT_FALSE(unused.grad().defined());
      auto same = a.detach().clone();
      broadcast(same, 0, world);
      EXPECT_TRUE(torch::equal(same, a.detach()));
    });
  }
}

TEST(DistributedOptimizer, ModelsThatDifferAreToldOnEveryRank) {
  const auto errors_with =
      [](const std::function<torch::OrderedDict<std::string, torch::Tensor>(const torch::Tensor&)>&
             unusual) {
        return run_ranks_catching({.size = 3}, [&](World& world) {
          auto a = parameter({1.0, 2.0});
          torch::optim::SGD sgd({a}, 1.0);
          const DistributedOptimizer optimizer(
              sgd, world.rank() == 1 ? unusual(a) : named({{"a", a}}), {}, world);
        });
      };
  const std::string start = "DistributedOptimizer: ranks disagree about the model: parameter ";
  for (const auto& error : errors_with([](const torch::Tensor& a) {
         return named({{"other", a}});
       })) {
    EXPECT_EQ(error, start + "0 is 'a' (Double [2]) on rank 0, but 'other' (Double [2]) on rank 1");
  }
  for (const auto& error : errors_with([](const torch::Tensor& a) {
         return named({{"a", a}, {"b", parameter({1.0})}});
       })) {
    EXPECT_EQ(error, start + "1 is none on rank 0, but 'b' (Double [1]) on rank 1");
  }
  for (const auto& error : errors_with([](const torch::Tensor&) {
         return named({{"a", parameter({1.0})}});
       })) {
    EXPECT_EQ(error, start + "0 is 'a' (Double [2]) on rank 0, but 'a' (Double [1]) on rank 1");
  }
}

TEST(DistributedOptimizer, RefusesACompressionThatThereIsNot) {
  const World world = World::create({});
  auto a = parameter({1.0});
  torch::optim::SGD sgd({a}, 1.0);
  EXPECT_THROW(DistributedOptimizer(sgd, named({{"a", a}}), {.compression = "zip"}, world),
               InputError);
}

TEST(DistributedOptimizer, RefusesWhatCannotBeReduced) {
  const World world = World::create({});
  auto complex = torch::ones({2}, torch::kComplexFloat).requires_grad_();
  auto real = parameter({1.0});
  torch::optim::SGD sgd({real}, 1.0);
  EXPECT_THROW(DistributedOptimizer(sgd, named({{"c", complex}}), {}, world), InputError);
  EXPECT_THROW(
      DistributedOptimizer(sgd, named({{"r", real}}), {.backward_passes_per_step = 0}, world),
      InputError);
  EXPECT_THROW(DistributedOptimizer(sgd, named({{"r", real}}), {.op = ReduceOp::max}, world),
               InputError);
  EXPECT_THROW(DistributedOptimizer(sgd, named({{"r", real}}),
                                    {.op = ReduceOp::adasum, .compression = "float16"}, world),
               InputError);
}

}  // namespace
}  // namespace sullae::testing

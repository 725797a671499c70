#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <limits>

#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

TEST(TensorCollectives, WorkOnAnyStrides) {
  run_ranks({.size = 3}, [](World& world) {
    auto base = torch::full({4, 6}, world.rank() + 1, torch::kFloat32);
    auto column = base.t().slice(0, 1, 3);
    allreduce(column, ReduceOp::sum, world);
    EXPECT_TRUE(torch::equal(column, torch::full({2, 4}, 6.0F)));
    EXPECT_EQ(base[0][0].item<float>(), static_cast<float>(world.rank() + 1));
    EXPECT_EQ(base[3][2].item<float>(), 6.0F);
  });
}

TEST(TensorCollectives, AllgatherConcatenatesDifferentLengths) {
  run_ranks({.size = 3}, [](World& world) {
    const auto mine = torch::full({world.rank(), 2}, world.rank(), torch::kInt64);
    const auto all = allgather(mine, world);
    EXPECT_TRUE(torch::equal(all, torch::tensor({1, 1, 2, 2, 2, 2}, torch::kInt64).view({3, 2})));
  });
}

TEST(TensorCollectives, BroadcastReducescatterAlltoall) {
  run_ranks({.size = 2}, [](World& world) {
    auto flag = torch::tensor({world.rank() == 1}, torch::kBool);
    broadcast(flag, 1, world);
    EXPECT_TRUE(flag.item<bool>());
    const auto rows = torch::arange(8, torch::kFloat64).view({4, 2}) + world.rank();
    const auto part = reducescatter(rows, ReduceOp::average, world);
    EXPECT_TRUE(torch::equal(part, torch::arange(8, torch::kFloat64)
                                           .view({4, 2})
                                           .slice(0, 2 * world.rank(), 2 * world.rank() + 2) +
                                       0.5));
    const auto moved = alltoall(rows, world);
    EXPECT_EQ(moved[0][0].item<double>(), world.rank() * 4.0);
    EXPECT_EQ(moved[2][0].item<double>(), world.rank() * 4.0 + 1);
    EXPECT_THROW(alltoall(torch::ones({3}), world), InputError);
  });
}

TEST(TensorCollectives, AllreduceAsyncTakesContiguousHostTensorsAlone) {
  run_ranks({.size = 2}, [](World& world) {
    auto values = torch::ones({1000});
    allreduce_async(values, ReduceOp::sum, {}, world).wait();
    EXPECT_EQ(values[999].item<float>(), 2.0F);
    auto strided = torch::ones({4, 4}).t().slice(0, 0, 2);
    EXPECT_THROW(allreduce_async(strided, ReduceOp::sum, {}, world), InputError);
    auto complex = torch::ones({1}, torch::kComplexFloat);
    EXPECT_THROW(allreduce(complex, ReduceOp::sum, world), InputError);
  });
}

TEST(TensorCollectives, MetricsAreWeighted) {
  run_ranks({.size = 2}, [](World& world) {
    const auto mean = average_metrics({{"loss", world.rank() == 0 ? 1.0 : 4.0}, {"accuracy", 0.5}},
                                      world.rank() == 0 ? 10 : 20, world);
    EXPECT_DOUBLE_EQ(mean.at("loss"), 3.0);
    EXPECT_DOUBLE_EQ(mean.at("accuracy"), 0.5);
    const double nothing = std::numeric_limits<double>::quiet_NaN();
    const bool has_samples = world.rank() == 0;
    const auto of_one =
        average_metrics({{"loss", has_samples ? 2.0 : nothing}}, has_samples, world);
    EXPECT_DOUBLE_EQ(of_one.at("loss"), 2.0);
    EXPECT_TRUE(std::isnan(average_metrics({{"loss", nothing}}, 0, world).at("loss")));
  });
}

TEST(Broadcast, MakesModelsAndOptimizersEqual) {
  run_ranks({.size = 3}, [](World& world) {
    torch::nn::Sequential model(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3));
    torch::optim::Adam adam(model->parameters(),
                            torch::optim::AdamOptions(world.rank() == 1 ? 0.5 : 0.1));
    for (int i = 0; i <= world.rank(); ++i) {
      model->forward(torch::randn({5, 4})).sum().backward();
      adam.step();
    }
    broadcast_parameters(*model, 1, world);
    broadcast_optimizer_state(adam, 1, world);
    EXPECT_EQ(static_cast<torch::optim::AdamOptions&>(adam.param_groups()[0].options()).lr(), 0.5);
    for (const auto& entry : adam.state()) {
      EXPECT_EQ(static_cast<torch::optim::AdamParamState&>(*entry.second).step(), 2);
    }
    for (const auto& tensor : model->buffers()) {
      auto copy = tensor.clone();
      broadcast(copy, 0, world);
      EXPECT_TRUE(torch::equal(copy, tensor));
    }
    // After one more step from equal gradients all are still equal.
    for (auto& parameter : model->parameters())
      parameter.mutable_grad() = torch::ones_like(parameter);
    adam.step();
    for (const auto& parameter : model->parameters()) {
      auto copy = parameter.detach().clone();
      broadcast(copy, 0, world);
      EXPECT_TRUE(torch::equal(copy, parameter.detach()));
    }
  });
}

TEST(TensorCollectives, EqualSizesOfDifferentShapesAreAMismatch) {
  for (const char* transport : {"shm", "ucx"}) {
    const auto errors = run_ranks_catching({.size = 2, .transport = transport}, [](World& world) {
      auto tensor = world.rank() == 0 ? torch::ones({3, 4}) : torch::ones({2, 6});
      allreduce(tensor, ReduceOp::sum, world);
    });
    EXPECT_TRUE(contains(errors[0], "rank 0 called allreduce (sum) of 12 float32 for '[3, 4]'"))
        << errors[0];
    EXPECT_TRUE(contains(errors[1], "called allreduce (sum) of 12 float32 for '[2, 6]'") ||
                contains(errors[1], "for '[3, 4]'"))
        << errors[1];
  }
  run_ranks({.size = 2}, [](World& world) {
    for (int i = 0; i < 3; ++i) {
      auto tensor = torch::ones({i, 4});
      allreduce(tensor, ReduceOp::sum, world);
      int value = 1;
      world.allreduce(&value, &value, 1, DataType::int32);
      EXPECT_EQ(value, 2);
    }
  });
}

TEST(AverageMetrics, RefusesOtherNames) {
  const auto errors = run_ranks_catching({.size = 2}, [](World& world) {
    average_metrics({{world.rank() == 0 ? "loss" : "accuracy", 1.0}, {"n", 2.0}}, 1, world);
  });
  for (const auto& error : errors)
    EXPECT_TRUE(contains(error, "rank 0 has (loss, n), but rank 1 has (accuracy, n)")) << error;
}

TEST(TensorCollectives, RefuseTensorsThatCannotBe) {
  run_ranks({.size = 2}, [](World& world) {
    torch::Tensor none;
    const std::function<void()> undefined[] = {
        [&] { allreduce(none, ReduceOp::sum, world); },
        [&] { allreduce_async(none, ReduceOp::sum, {}, world); },
        [&] { broadcast(none, 0, world); },
        [&] { allgather(none, world); },
        [&] { reducescatter(none, ReduceOp::sum, world); },
        [&] {
          alltoall(none, world);
        }};
    for (const auto& call : undefined)
      EXPECT_TRUE(contains(error_of(call), "the tensor is undefined")) << error_of(call);
    auto expanded = torch::ones({4, 4}).expand({3, 4, 4});
    const auto error = error_of([&] { allreduce(expanded, ReduceOp::sum, world); });
    EXPECT_TRUE(contains(error, "allreduce: the tensor [3, 4, 4] is expanded")) << error;
    EXPECT_EQ(allgather(expanded, world).size(0), 6);  // which is only read
  });
}

// As many elements, which mean something else.
TEST(TensorCollectives, RanksWithOtherShapesAreTold) {
  run_ranks({.size = 2}, [](World& world) {
    auto tensor = world.rank() == 0 ? torch::ones({4, 4}) : torch::ones({2, 8});
    const std::function<void()> calls[] = {
        [&] { allreduce(tensor, ReduceOp::sum, world); }, [&] { broadcast(tensor, 0, world); },
        [&] { allgather(tensor, world); }, [&] { reducescatter(tensor, ReduceOp::sum, world); },
        [&] {
          alltoall(tensor, world);
        }};
    for (const auto& call : calls) {
      EXPECT_THROW(call(), MismatchError);
      // The world goes on.
      auto one = torch::ones({1});
      allreduce(one, ReduceOp::sum, world);
      EXPECT_EQ(one.item<float>(), 2);
    }
  });
}

}  // namespace
}  // namespace sullae::testing

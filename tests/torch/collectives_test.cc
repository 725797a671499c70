#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sullae/torch.h"
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

}  // namespace
}  // namespace sullae::testing

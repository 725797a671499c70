// CUDA tensors: through NCCL where every rank has a GPU of its own, through host memory where ranks
// share one.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sullae/adapter.h"
#include "sullae/torch.h"
#include "sullae/torch/optimizers.h"
#include "sullae/torch/parallel.h"
#include "sullae/torch/precision.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "torch/device_order.h"

namespace sullae::testing {
namespace {

class Devices : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available())
      GTEST_SKIP() << "NO GPU, OR A LIBTORCH WITHOUT CUDA: CUDA tensors are not tested";
  }
};

torch::Device device_of(const World& world) {
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(
                            world.rank() % static_cast<int>(torch::cuda::device_count()))};
}

TEST_F(Devices, CollectivesGiveWhatTheyGiveInHostMemory) {
  run_ranks({.size = 2}, [](World& world) {
    const auto device = device_of(world);
    auto values = torch::arange(10, torch::kFloat32).to(device) * (world.rank() + 1);
    allreduce(values, ReduceOp::sum, world);
    EXPECT_TRUE(torch::equal(values.cpu(), torch::arange(10, torch::kFloat32) * 3));
    auto root = torch::full({5}, world.rank(), torch::kInt64).to(device);
    broadcast(root, 1, world);
    EXPECT_TRUE(torch::equal(root.cpu(), torch::ones({5}, torch::kInt64)));
    const auto rows = torch::full({world.rank() + 1, 2}, world.rank(), torch::kFloat32).to(device);
    const auto all = allgather(rows, world);
    EXPECT_EQ(all.device(), device);
    EXPECT_EQ(all.cpu().sum().item<float>(), 4.0F);
    const auto part = reducescatter(torch::ones({4}).to(device), ReduceOp::sum, world);
    EXPECT_TRUE(torch::equal(part.cpu(), torch::full({2}, 2.0F)));
    const auto exchanged = alltoall(torch::full({2}, world.rank()).to(device), world);
    EXPECT_TRUE(torch::equal(exchanged.cpu(), torch::arange(2)));
  });
}

TEST_F(Devices, TrainingGivesWhatOneProcessGives) {
  const auto make = [] {
    torch::nn::Sequential model(torch::nn::Linear(6, 8), torch::nn::Tanh(),
                                torch::nn::Linear(8, 1));
    const torch::NoGradGuard guard;
    for (auto& parameter : model->parameters())
      parameter.copy_(torch::linspace(-0.5, 0.7, parameter.numel()).reshape(parameter.sizes()));
    model->to(torch::kFloat64);
    return model;
  };
  const auto batch = torch::linspace(-1, 1, 24, torch::kFloat64).reshape({4, 6});
  auto expected = make();
  torch::optim::SGD one(expected->parameters(), 0.1);
  for (int step = 0; step < 20; ++step) {
    one.zero_grad();
    expected->forward(batch * (1 + 0.1 * step)).mean().backward();
    one.step();
  }
  run_ranks({.size = 2}, [&](World& world) {
    const auto device = device_of(world);
    auto model = make();
    model->to(device);
    torch::optim::SGD sgd(model->parameters(), 0.1);
    DistributedOptimizer optimizer(sgd, model->named_parameters(), {.bucket_bytes = 100}, world);
    const auto mine = batch.slice(0, world.rank() * 2, world.rank() * 2 + 2).to(device);
    for (int step = 0; step < 20; ++step) {
      optimizer.zero_grad();
      model->forward(mine * (1 + 0.1 * step)).mean().backward();
      optimizer.step();
    }
    const auto ours = model->parameters();
    const auto theirs = expected->parameters();
    for (std::size_t i = 0; i < ours.size(); ++i)
      EXPECT_LT((ours[i].cpu() - theirs[i]).abs().max().item<double>(), 1e-10);
  });
}

// Of all ranks' images, and laid out for cuDNN. Here ranks are threads, and libtorch has one thread
// for all backward passes on a GPU, in which they would wait for each other; processes that share a
// GPU are in python/tests/test_gpu.py.
TEST_F(Devices, SyncBatchNormGivesWhatOneProcessGives) {
  if (torch::cuda::device_count() < 2) GTEST_SKIP() << "NO SECOND GPU";
  const auto images = torch::linspace(-2, 3, 8 * 3 * 25, torch::kFloat64).sin().view({8, 3, 5, 5});
  torch::nn::BatchNorm2d expected(3);
  expected->to(torch::kFloat64);
  auto whole = images.clone().requires_grad_();
  expected->forward(whole).square().sum().backward();
  run_ranks({.size = 2}, [&](World& world) {
    const auto device = device_of(world);
    torch::nn::BatchNorm2d norm(3);
    norm->to(device, torch::kFloat64);
    const auto rows = torch::arange(4) + 4 * world.rank();
    auto mine =
        images.index_select(0, rows).to(device).contiguous(torch::MemoryFormat::ChannelsLast);
    mine.requires_grad_();
    sync_batch_norm(mine, *norm, world).square().sum().backward();
    EXPECT_TRUE(torch::allclose(norm->running_var.cpu(), expected->running_var, 1e-10, 1e-10));
    EXPECT_TRUE(
        torch::allclose(mine.grad().cpu(), whole.grad().index_select(0, rows), 1e-8, 1e-10));
  });
}

TEST_F(Devices, SixteenBitsTrainAsThirtyTwoDo) {
  const auto train = [](World& world, std::optional<torch::ScalarType> type) {
    const auto device = device_of(world);
    torch::nn::Sequential net(torch::nn::Conv2d(3, 8, 3), torch::nn::ReLU(), torch::nn::Flatten(),
                              torch::nn::Linear(8 * 36, 4));
    {
      const torch::NoGradGuard guard;
      for (auto& parameter : net->parameters())
        parameter.copy_(torch::linspace(-0.1, 0.1, parameter.numel()).view(parameter.sizes()));
    }
    net->to(device);
    std::optional<MixedPrecision> mixed;
    if (type) mixed.emplace(*net, MixedPrecisionOptions{.type = *type});
    SGD sgd(mixed ? mixed->master_parameters() : net->parameters(),
            torch::optim::SGDOptions(0.01).momentum(0.9));
    DistributedOptimizer optimizer(sgd, net->named_parameters(), {}, world);
    LossScaler scaler({.scale = type ? 1024.0 : 1.0});
    const auto images = torch::linspace(-2, 3, 8 * 3 * 64).sin().view({8, 3, 8, 8});
    const auto mine = images.slice(0, 4 * world.rank(), 4 * world.rank() + 4).to(device);
    const auto labels = torch::arange(4, torch::kInt64).to(device);
    double last = 0;
    for (int step = 0; step < 30; ++step) {
      mixed ? mixed->zero_grad() : optimizer.zero_grad();
      const auto scores = net->forward(type ? mine.to(*type) : mine).to(torch::kFloat32);
      const auto loss = torch::nn::functional::cross_entropy(scores, labels);
      scaler.scale(loss).backward();
      optimizer.synchronize();
      if (mixed) {
        mixed->unscale(scaler.scale());
        EXPECT_TRUE(mixed->has_finite_gradients());
      }
      optimizer.step();
      if (mixed) mixed->update_model();
      last = loss.item<double>();
    }
    return last;
  };
  run_ranks({.size = 2}, [&](World& world) {
    const double expected = train(world, std::nullopt);
    EXPECT_NEAR(train(world, torch::kFloat16), expected, 0.02);
    EXPECT_NEAR(train(world, torch::kBFloat16), expected, 0.1);
  });
}

// Needs no GPU: what every build must say.
TEST(DeviceTransport, IsHostMemoryWhereThereIsNothingElse) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "there is a GPU here";
  run_ranks({.size = 2},
            [](World& world) { EXPECT_EQ(AdapterView(world).device_communicator(0), nullptr); });
  ::setenv("SULLAE_DEVICE_TRANSPORT", "nccl", 1);
  const auto errors = run_ranks_catching(
      {.size = 2}, [](World& world) { AdapterView(world).device_communicator(0); });
  ::setenv("SULLAE_DEVICE_TRANSPORT", "carrier pigeon", 1);
  const std::string unknown = error_of([] { World::create({}); });
  ::unsetenv("SULLAE_DEVICE_TRANSPORT");
  for (const std::string& error : errors) {
    EXPECT_EQ(error,
              "SULLAE_DEVICE_TRANSPORT=nccl: rank 0 has no such GPU, or no NCCL in its build");
  }
  EXPECT_EQ(unknown, "SULLAE_DEVICE_TRANSPORT='carrier pigeon': expected one of auto, nccl, host");
}

}  // namespace
}  // namespace sullae::testing

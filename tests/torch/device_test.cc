// CUDA tensors: through NCCL where every rank has a GPU of its own, through host memory where ranks
// share one.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sullae/adapter.h"
#include "sullae/torch.h"
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

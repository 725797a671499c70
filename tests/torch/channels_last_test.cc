// Weights in another order than a contiguous tensor's.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

constexpr auto kChannelsLast = torch::MemoryFormat::ChannelsLast;

torch::nn::Sequential make(bool channels_last) {
  torch::nn::Sequential model(torch::nn::Conv2d(3, 5, 3), torch::nn::ReLU(),
                              torch::nn::Conv2d(5, 4, 3), torch::nn::Flatten(),
                              torch::nn::Linear(16, 2));
  model->to(torch::kFloat64);
  const torch::NoGradGuard guard;
  for (auto& parameter : model->parameters()) {
    const auto values = torch::linspace(-0.5, 0.7, parameter.numel(), torch::kFloat64) * 0.2;
    parameter.copy_(values.reshape(parameter.sizes()));
    if (channels_last && parameter.dim() == 4)
      parameter.set_data(parameter.data().contiguous(kChannelsLast));
  }
  return model;
}

// Eight images, of which each rank takes its part.
torch::Tensor loss_of(torch::nn::Sequential& model, int rank, int size) {
  const auto images = torch::linspace(-1, 2, 8 * 3 * 36, torch::kFloat64).cos().view({8, 3, 6, 6});
  return model->forward(images.chunk(size)[static_cast<std::size_t>(rank)]).square().mean();
}

TEST(ChannelsLast, TrainsAsOneProcessDoesWithItsGradientsInTheBuckets) {
  auto expected = make(false);
  torch::optim::SGD one(expected->parameters(), torch::optim::SGDOptions(1e-3).momentum(0.9));
  for (int step = 0; step < 5; ++step) {
    one.zero_grad();
    loss_of(expected, 0, 1).backward();
    one.step();
  }
  for (const char* transport : {"shm", "ucx"}) {
    run_ranks({.size = 2, .transport = transport}, [&](World& world) {
      auto model = make(true);
      torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(1e-3).momentum(0.9));
      DistributedOptimizer optimizer(sgd, model->named_parameters(), {}, world);
      const void* where = nullptr;
      for (int step = 0; step < 5; ++step) {
        optimizer.zero_grad();
        loss_of(model, world.rank(), world.size()).backward();
        optimizer.step();
        const auto& gradient = model->parameters()[0].grad();
        EXPECT_TRUE(gradient.is_contiguous(kChannelsLast));
        if (step == 1) where = gradient.data_ptr();
        if (step > 1) {
          EXPECT_EQ(gradient.data_ptr(), where);
        }
      }
      EXPECT_FALSE(expected->parameters()[0].isnan().any().item<bool>());
      for (std::size_t i = 0; i < model->parameters().size(); ++i) {
        EXPECT_LT((model->parameters()[i] - expected->parameters()[i]).abs().max().item<double>(),
                  1e-12);
      }
    });
  }
}

TEST(ChannelsLast, IsTheSameOnAllRanksOrRefused) {
  const auto errors = run_ranks_catching({.size = 2}, [](World& world) {
    auto model = make(world.rank() == 1);
    torch::optim::SGD sgd(model->parameters(), 0.1);
    const DistributedOptimizer optimizer(sgd, model->named_parameters(), {}, world);
  });
  for (const std::string& error : errors) {
    EXPECT_NE(
        error.find("parameter 0 is '0.weight' (Double [5, 3, 3, 3]) on rank 0, but '0.weight' "
                   "(Double [5, 3, 3, 3] with strides [27, 1, 9, 3]) on rank 1"),
        std::string::npos)
        << error;
  }
}

}  // namespace
}  // namespace sullae::testing

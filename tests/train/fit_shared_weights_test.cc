// fit() of models whose modules share weights: one parameter under two names is trained once a
// step, in 32 and in 16 bits.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sullae/torch.h"
#include "sullae/train.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using namespace train;

// A layer and a norm that run twice, and stand in the list of parameters twice. Without libtorch's
// generator, which ranks' threads share.
struct TwiceImpl : torch::nn::Module {
  TwiceImpl() {
    register_module("one", layer);
    register_module("norm", norm);
    register_module("other", layer);
    register_module("last_norm", norm);
    const torch::NoGradGuard guard;
    layer->weight.copy_(torch::sin(torch::arange(16)).view({4, 4}));
    layer->bias.fill_(0.1);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto type = layer->weight.scalar_type();
    const auto pass = [&](const torch::Tensor& from) {
      return layer(norm(from.to(norm->weight.scalar_type())).to(type));
    };
    return pass(torch::tanh(pass(x)));
  }
  torch::nn::Linear layer{4, 4};
  torch::nn::LayerNorm norm{std::vector<std::int64_t>{4}};
};

TensorData waves(std::int64_t count) {
  const auto x = torch::sin(torch::arange(count * 4).view({count, 4}) * 0.7);
  return TensorData({x, torch::cos(x * 2)}, {});
}

TrainOptions options_of(double clip) {
  TrainOptions options;
  options.device = "cpu";
  options.epochs = 3;
  options.batch_size = 6;
  options.optimizer = "sgd";
  options.lr = 0.1;
  options.momentum = 0.9;
  options.clip_norm = clip;
  return options;
}

// The first layer's weight.
torch::Tensor trained(const TrainOptions& options, const World& world, std::int64_t count = 24) {
  TwiceImpl model;
  auto data = waves(count);
  fit(model, Regression(forward_of<TwiceImpl>()), data, options, "twice", {}, world);
  return model.layer->weight.detach().to(torch::kFloat32);
}

TEST(FitSharedWeights, AreUpdatedOnceAStep) {
  for (const double clip : {0.0, 0.05}) {
    // The same steps by hand, of each parameter once: batches are what StepPlan makes of one order,
    // so all samples are in each.
    auto options = options_of(clip);
    options.batch_size = 24;
    TwiceImpl model;
    const auto x = torch::sin(torch::arange(24 * 4).view({24, 4}) * 0.7);
    const std::vector<torch::Tensor> each{model.layer->weight, model.layer->bias,
                                          model.norm->weight, model.norm->bias};
    torch::optim::SGD sgd(each, torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int step = 0; step < options.epochs; ++step) {
      sgd.zero_grad();
      torch::mse_loss(model.forward(x), torch::cos(x * 2)).backward();
      if (clip > 0) torch::nn::utils::clip_grad_norm_(each, clip);
      sgd.step();
    }
    for (const int size : {1, 2, 3}) {
      run_ranks({.size = size}, [&](World& world) {
        const auto weight = trained(options, world);
        EXPECT_TRUE(torch::allclose(weight, model.layer->weight, 1e-5, 1e-6))
            << size << " ranks, clipped to " << clip;
      });
    }
  }
}

// A power of two changes no digit, unless it is divided by twice.
TEST(FitSharedWeights, AreUnscaledOnceAStep) {
  for (const int size : {1, 2}) {
    run_ranks({.size = size}, [&](World& world) {
      auto options = options_of(0);
      options.precision = "bfloat16";
      const auto expected = trained(options, world);
      options.loss_scale = "1024";
      EXPECT_TRUE(torch::equal(trained(options, world), expected)) << size;
    });
  }
}

TEST(FitSharedWeights, AreInCheckpointsByAllTheirNames) {
  const TemporaryDirectory directory;
  run_ranks({.size = 2}, [&](World& world) {
    auto options = options_of(0);
    options.precision = "bfloat16";
    options.epochs = 2;
    const auto straight = trained(options, world);
    options.checkpoint_dir = directory.path() / "checkpoints";
    options.resume = true;
    options.max_steps = 5;  // of eight
    trained(options, world);
    options.max_steps = 0;
    EXPECT_TRUE(torch::equal(trained(options, world), straight));
  });
}

// The last step has one sample: a rank has none, and what was divided before ranks reduce it is no
// other backward.
TEST(FitSharedWeights, AreReducedInFloat32WhereARankHasNothing) {
  run_ranks({.size = 2}, [&](World& world) {
    auto options = options_of(0);
    options.precision = "bfloat16";
    options.allreduce_precision = "float32";
    options.loss_scale = "128";
    EXPECT_TRUE(torch::isfinite(trained(options, world, 25)).all().item<bool>());
  });
}

}  // namespace
}  // namespace sullae::testing

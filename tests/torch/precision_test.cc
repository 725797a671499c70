// Mixed precision: small updates are not lost, and an overflow on one rank is one on all.
#include "sullae/torch/precision.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

torch::nn::Sequential make_model() {
  return torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                               torch::nn::Linear(8, 2));
}

TEST(MixedPrecisions, CastWhatIsNoNormAndKeepItsMaster) {
  auto model = make_model();
  const auto before = model->parameters()[0].detach().clone();
  const MixedPrecision mixed(*model);
  EXPECT_EQ(model->parameters()[0].scalar_type(), torch::kBFloat16);
  EXPECT_EQ(model->named_parameters()["1.weight"].scalar_type(), torch::kFloat32);
  EXPECT_TRUE(torch::equal(mixed.master_parameters()[0], before));
  EXPECT_TRUE(
      mixed.master_named_parameters()["1.weight"].is_same(model->named_parameters()["1.weight"]));
}

TEST(MixedPrecisions, UpdatesTooSmallForSixteenBitsAddUp) {
  torch::nn::Linear model(1, 1);
  {
    const torch::NoGradGuard guard;
    model->weight.fill_(1);
  }
  MixedPrecision mixed(*model);
  torch::optim::SGD sgd(mixed.master_parameters(), 1e-4);
  for (int step = 0; step < 100; ++step) {
    mixed.zero_grad();
    model->weight.mutable_grad() = torch::full_like(model->weight, -1);
    mixed.unscale(1);
    ASSERT_TRUE(mixed.has_finite_gradients());
    sgd.step();
    mixed.update_model();
  }
  EXPECT_NEAR(mixed.master_parameters()[0].item<float>(), 1.01, 1e-5);
  // The nearest to 1.01 that bfloat16 has; a single step would not have moved it.
  EXPECT_FLOAT_EQ(model->weight.to(torch::kFloat32).item<float>(), 1.0078125F);
}

TEST(MixedPrecisions, TrainAsFloat32DoesUpToRounding) {
  const auto train = [](bool low) {
    torch::manual_seed(3);
    torch::nn::Sequential model(torch::nn::Linear(4, 16), torch::nn::Tanh(),
                                torch::nn::Linear(16, 1));
    std::optional<MixedPrecision> mixed;
    if (low) mixed.emplace(*model);
    torch::optim::SGD sgd(low ? mixed->master_parameters() : model->parameters(), 0.05);
    const auto x = torch::sin(torch::arange(256).view({64, 4}) * 0.7);
    const auto y = x.sum(1, true);
    double loss_value = 0;
    for (int step = 0; step < 200; ++step) {
      if (mixed) mixed->zero_grad();
      sgd.zero_grad();
      const auto output = model->forward(low ? x.to(torch::kBFloat16) : x).to(torch::kFloat32);
      const auto loss = torch::mse_loss(output, y);
      (loss * 128).backward();
      if (mixed) {
        mixed->unscale(128);
        EXPECT_TRUE(mixed->has_finite_gradients());
      } else {
        for (auto& p : model->parameters()) p.mutable_grad().div_(128);
      }
      sgd.step();
      if (mixed) mixed->update_model();
      loss_value = loss.item<double>();
    }
    return loss_value;
  };
  const double low = train(true);
  EXPECT_LT(low, 0.02);
  EXPECT_NEAR(low, train(false), 0.01);
}

// What a user's step looks like, with an infinity on rank 1 in step 2.
void overflow_on_one_rank(World& world, bool reduce_in_float32) {
  auto model = make_model();
  broadcast_parameters(*model, 0, world);
  MixedPrecision mixed(*model);
  torch::optim::SGD sgd(mixed.master_parameters(), 0.1);
  DistributedOptimizer optimizer(
      sgd, reduce_in_float32 ? mixed.master_named_parameters() : mixed.parameters(),
      {.overlap = !reduce_in_float32}, world);
  LossScaler scaler({.scale = 1024, .growth_interval = 3});
  for (int step = 0; step < 6; ++step) {
    mixed.zero_grad();
    optimizer.zero_grad();
    const auto x =
        torch::full({6, 4}, 0.1 * (step + world.rank())) + torch::arange(24).view({6, 4}) * 0.01;
    auto loss = model->forward(x.to(torch::kBFloat16)).to(torch::kFloat32).square().mean();
    if (step == 2 && world.rank() == 1) loss = loss * std::numeric_limits<float>::infinity();
    scaler.scale(loss).backward();
    if (reduce_in_float32) mixed.unscale(scaler.scale());
    optimizer.synchronize();
    if (!reduce_in_float32) mixed.unscale(scaler.scale());
    const bool finite = mixed.has_finite_gradients();
    EXPECT_EQ(finite, step != 2) << "on rank " << world.rank() << " in step " << step;
    if (finite) {
      optimizer.step();
      mixed.update_model();
    }
    scaler.update(finite);
  }
  EXPECT_EQ(scaler.skipped(), 1);
  EXPECT_EQ(scaler.scale(), 1024);  // halved, and doubled after three good steps
  for (const auto& master : mixed.master_parameters()) {
    EXPECT_TRUE(torch::isfinite(master).all().item<bool>());
    torch::Tensor lowest = master.detach().clone();
    torch::Tensor highest = lowest.clone();
    allreduce(lowest, ReduceOp::min, world);
    allreduce(highest, ReduceOp::max, world);
    EXPECT_TRUE(torch::equal(lowest, highest)) << "weights differ between ranks";
  }
}

TEST(LossScaling, AnOverflowOnOneRankSkipsTheStepOnAll) {
  for (const bool in_float32 : {false, true}) {
    run_ranks({.size = 2}, [&](World& world) { overflow_on_one_rank(world, in_float32); });
    run_ranks({.size = 3, .transport = "ucx"},
              [&](World& world) { overflow_on_one_rank(world, in_float32); });
  }
}

TEST(LossScaling, GoesDownAndUpByTwos) {
  LossScaler scaler({.scale = 8, .growth_interval = 2});
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 4);
  scaler.update(true);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 2);
  scaler.update(true);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 4);
  EXPECT_EQ(scaler.skipped(), 2);
  LossScaler copy;
  copy.load_state(scaler.state());
  EXPECT_EQ(copy.scale(), 4);
  LossScaler fixed({.scale = 1024, .dynamic = false});
  fixed.update(false);
  EXPECT_EQ(fixed.scale(), 1024);
  EXPECT_TRUE(contains(error_of([] { LossScaler({.scale = 0}); }), "expected a scale above 0"));
}

TEST(MixedPrecisions, RefuseWhatCannotBe) {
  auto model = make_model();
  EXPECT_TRUE(contains(error_of([&] { MixedPrecision(*model, {.type = torch::kFloat16}); }),
                       "libtorch does not compute in float16 on the CPU"));
  EXPECT_TRUE(contains(error_of([&] { MixedPrecision(*model, {.type = torch::kFloat64}); }),
                       "expected bfloat16"));
}

}  // namespace
}  // namespace sullae::testing

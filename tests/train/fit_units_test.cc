// fit() of models of one's own that are made of units.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sullae/parallel/mesh.h"
#include "sullae/train.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using namespace train;

struct LayerImpl : torch::nn::Module {
  torch::nn::Linear linear{register_module("linear", torch::nn::Linear(6, 6))};
  torch::Tensor forward(const torch::Tensor& x) { return torch::tanh(linear(x)); }
};
TORCH_MODULE(Layer);

// Beside its units it has what is not trained, and differs from rank to rank at first.
struct DividedImpl : torch::nn::Module, HasUnits {
  DividedImpl(const ShardedUnits& divided, int rank) : parts(divided) {
    register_module("one", first);
    register_module("two", second);
    one = parts.shard(first, "one");
    two = parts.shard(second, "two");
    scale = register_buffer("scale", torch::full({6}, 1.0 + rank));
    shift = register_parameter("shift", torch::full({6}, 2.0 * rank), /*requires_grad=*/false);
  }
  torch::Tensor forward(const torch::Tensor& x) { return two(one(x * scale)) + shift; }
  ShardedUnits* units() override { return &parts; }

  ShardedUnits parts;
  Layer first;
  Layer second;
  ShardedUnit<LayerImpl> one;
  ShardedUnit<LayerImpl> two;
  torch::Tensor scale;
  torch::Tensor shift;
};

// The same in one piece.
struct UndividedImpl : torch::nn::Module {
  UndividedImpl() {
    register_module("one", first);
    register_module("two", second);
    scale = register_buffer("scale", torch::ones({6}));
    shift = register_parameter("shift", torch::zeros({6}), /*requires_grad=*/false);
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(first(x * scale)) + shift; }

  Layer first;
  Layer second;
  torch::Tensor scale;
  torch::Tensor shift;
};

TensorData halved_rows() {
  const auto x = torch::sin(torch::arange(21 * 6).view({21, 6}) * 0.7);
  return TensorData({x, x * 0.5}, {x, x * 0.5});
}

const TrainOptions kOptions{.epochs = 2, .batch_size = 5, .device = "cpu", .shard = "parameters"};

TEST(FitUnits, TrainsThemAgainAndAgainAndSavesThem) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "weights.ckpt";
  run_ranks({.size = 3}, [&](World& world) {
    DividedImpl model(ShardedUnits(world), world.rank());
    const Regression objective(forward_of<DividedImpl>());
    auto data = halved_rows();
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i)
      losses.push_back(fit(model, objective, data, kOptions, "halves", {}, world).test_loss);
    EXPECT_LT(losses[2], losses[0]);
    // Rank 0's.
    EXPECT_EQ(model.scale.sum().item<double>(), 6);
    EXPECT_EQ(model.shift.sum().item<double>(), 0);
    save_weights(file, model, model.parts);
    // What is loaded is what was trained, on ranks and in one process.
    const auto x = torch::ones({1, 6});
    const torch::NoGradGuard guard;
    const auto expected = model.forward(x);
    DividedImpl other(ShardedUnits(world), world.rank());
    load_weights(file, other, other.parts);
    EXPECT_TRUE(torch::equal(other.forward(x), expected));
    DividedImpl alone(ShardedUnits(World::create({})), 1);
    load_checkpoint(file, alone);
    EXPECT_TRUE(torch::allclose(alone.forward(x), expected, 1e-5, 1e-6));
  });
}

// What is frozen stands beside the units, and is the optimizer's in files, as one process has it.
TEST(FitUnits, GoOnInOneProcessAndTheOtherWayRound) {
  const TemporaryDirectory one;
  const TemporaryDirectory other;
  // Returns the loss after so many epochs, of which those in the folder are done.
  const auto go_on = [](int ranks, int epochs, const TemporaryDirectory& folder, auto make,
                        const char* shard) {
    double loss = 0;
    run_ranks({.size = ranks}, [&](World& world) {
      auto model = make(world);
      auto data = halved_rows();
      auto options = kOptions;
      options.optimizer = "adam";
      options.lr = 0.01;
      options.shard = shard;
      options.epochs = epochs;
      options.checkpoint_dir = folder.path();
      options.resume = true;
      const Regression objective(forward_of<std::remove_reference_t<decltype(model)>>());
      const auto report = fit(model, objective, data, options, "halves", {}, world);
      EXPECT_EQ(report.epochs, epochs);
      if (world.rank() == 0) loss = report.test_loss;
    });
    return loss;
  };
  const auto divided = [](const World& world) {
    return DividedImpl(ShardedUnits(world), 0);
  };
  const auto undivided = [](const World&) {
    return UndividedImpl();
  };
  go_on(2, 1, one, divided, "parameters");
  std::filesystem::copy(one.path(), other.path(), std::filesystem::copy_options::recursive);
  EXPECT_NEAR(go_on(1, 2, one, undivided, "none"), go_on(3, 2, other, divided, "parameters"), 1e-5);
  EXPECT_NEAR(go_on(2, 3, one, divided, "parameters"), go_on(1, 3, other, undivided, "none"), 1e-5);
}

TEST(FitUnits, SaysWhatIsWrong) {
  run_ranks({.size = 2}, [](World& world) {
    const Regression objective(forward_of<DividedImpl>());
    auto data = halved_rows();
    const auto error = [&](const ShardedUnits& units, bool more) {
      DividedImpl model(units, 0);
      if (more) model.register_parameter("more", torch::ones({2}));
      return error_of<InputError>(
          [&] { fit(model, objective, data, kOptions, "halves", {}, world); });
    };
    EXPECT_TRUE(contains(error(ShardedUnits(world), true),
                         "parameter 'more' is of no unit, and nobody would train it"));
    const Mesh mesh(world, {{"replicas", 2}, {"shard", 1}});
    EXPECT_EQ(
        error(ShardedUnits(mesh["shard"]), false),
        "--shard parameters: the model's units are divided among ranks 0: expected ranks 0, 1");
    EXPECT_EQ(error(ShardedUnits(mesh["shard"], mesh["replicas"]), false),
              "--shard parameters: the model's units are divided among ranks 0, with replicas: "
              "expected ranks 0, 1");
    EXPECT_TRUE(contains(error(ShardedUnits(world, {.type = torch::kBFloat16}), false),
                         "--precision float32: the model's units compute in another type"));
  });
}

}  // namespace
}  // namespace sullae::testing

// fit() of models of one's own in stages.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sullae/parallel.h"
#include "sullae/torch.h"
#include "sullae/train.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using namespace train;

// Three layers, of which a rank has some, a parameter that the first and the last use, and a buffer
// that one rank has.
struct PipedImpl : torch::nn::Module, HasStages {
  explicit PipedImpl(const World& pipe, double start = 0.3) : world(pipe) {
    const int ranks = world.size();
    for (int i = world.rank() * 3 / ranks; i < (world.rank() + 1) * 3 / ranks; ++i) {
      torch::nn::Linear layer(6, 6);
      const torch::NoGradGuard guard;
      // Without libtorch's generator, which threads would share.
      layer->weight.copy_((torch::sin(torch::arange(36) * (1.7 + i)) * 0.4).view({6, 6}));
      layer->bias.fill_(0.1 * i);
      layers.push_back(register_module("layer" + std::to_string(i), layer));
    }
    if (is_first() || is_last()) scale = register_parameter("scale", torch::full({6}, start));
    if (is_first()) register_buffer("calls", torch::zeros({1}));
  }
  bool is_first() const { return world.rank() == 0; }
  bool is_last() const { return world.rank() == world.size() - 1; }
  torch::Tensor forward(const torch::Tensor& x) {
    auto y = arrived.defined() ? arrived : begin(x);
    for (auto& layer : layers) y = torch::tanh(layer(y));
    return y * scale;
  }
  torch::Tensor begin(const torch::Tensor& x) {
    named_buffers()["calls"] += 1;
    return x * scale;
  }
  const World* stages() const override { return &world; }
  torch::Tensor run_stage(int, const Batch& batch, const torch::Tensor& before) override {
    auto y = before.defined() ? before : begin(batch.inputs[0]);
    for (auto& layer : layers) y = torch::tanh(layer(y));
    return y;
  }
  void begin_with(const torch::Tensor& before) override { arrived = before; }

  World world;
  std::vector<torch::nn::Linear> layers;
  torch::Tensor scale;
  torch::Tensor arrived;
};

TensorData halved_waves() {
  const auto x = torch::sin(torch::arange(21 * 6).view({21, 6}) * 0.7);
  return TensorData({x, x * 0.5}, {x, x * 0.5});
}

const Regression kOfPiped(forward_of<PipedImpl>());

TEST(FitStages, TrainWhatOneProcessTrains) {
  const TemporaryDirectory folder;
  TrainOptions options{.epochs = 3,
                       .batch_size = 6,
                       .accumulation_steps = 2,
                       .lr = 0.01,
                       .clip_norm = 0.1,
                       .device = "cpu"};
  Report alone;
  const auto trained = [&](World& world, const World& pipe) {
    // Different at first: the first rank's counts.
    PipedImpl model(pipe, pipe.rank() == 0 ? 0.3 : 0.5);
    auto data = halved_waves();
    return fit(model, kOfPiped, data, options, "halves", {}, world);
  };
  run_ranks({.size = 1}, [&](World& world) { alone = trained(world, World::create({})); });
  EXPECT_EQ(alone.parameters, 3 * 42 + 6);
  for (const char* const ways : {"pp=2", "pp=3", "dp=2,pp=2"}) {
    SCOPED_TRACE(ways);
    options.mesh = ways;
    const int ranks = options.mesh == "dp=2,pp=2" ? 4 : options.mesh.back() - '0';
    run_ranks({.size = ranks}, [&](World& world) {
      const Mesh mesh(world, {{"dp", ranks == 4 ? 2 : 1}, {"pp", ranks == 4 ? 2 : ranks}});
      const auto report = trained(world, mesh["pp"]);
      EXPECT_NEAR(report.test_loss, alone.test_loss, 1e-6);
      EXPECT_NEAR(report.train_loss, alone.train_loss, 1e-6);
      EXPECT_NEAR(report.test_metrics.at("rmse"), alone.test_metrics.at("rmse"), 1e-6);
      EXPECT_EQ(report.parameters, alone.parameters);
    });
  }
  // What it saves is one process's model.
  options.mesh = "pp=3";
  options.checkpoint_dir = folder.path();
  run_ranks({.size = 3}, [&](World& world) { trained(world, world); });
  PipedImpl whole(World::create({}));
  load_checkpoint(folder.path() / "halves-best.ckpt", whole);
  EXPECT_GT(whole.named_buffers()["calls"].item<float>(), 0);
  EXPECT_NE(whole.scale[0].item<float>(), 0.3F);
}

// Of the optimizer's two groups, those that decay and others, the first rank has one.
struct BareImpl : torch::nn::Module, HasStages {
  explicit BareImpl(const World& pipe) : world(pipe) {
    for (int i = world.rank() * 2 / world.size(); i < (world.rank() + 1) * 2 / world.size(); ++i) {
      torch::nn::Linear layer(torch::nn::LinearOptions(6, 6).bias(i == 1));
      const torch::NoGradGuard guard;
      for (auto& parameter : layer->parameters()) parameter.fill_(0.1 + i);
      layers.push_back(register_module("layer" + std::to_string(i), layer));
    }
  }
  torch::Tensor through(torch::Tensor x) {
    for (auto& layer : layers) x = torch::tanh(layer(x));
    return x;
  }
  torch::Tensor forward(const torch::Tensor& x) { return through(arrived.defined() ? arrived : x); }
  const World* stages() const override { return &world; }
  torch::Tensor run_stage(int, const Batch& batch, const torch::Tensor& before) override {
    return through(before.defined() ? before : batch.inputs[0]);
  }
  void begin_with(const torch::Tensor& before) override { arrived = before; }
  World world;
  std::vector<torch::nn::Linear> layers;
  torch::Tensor arrived;
};

TEST(FitStages, MayLackAGroupOfTheOptimizer) {
  const TemporaryDirectory folder;
  const Regression objective(forward_of<BareImpl>());
  TrainOptions options{.epochs = 1,
                       .batch_size = 6,
                       .optimizer = "adamw",
                       .lr = 0.01,
                       .weight_decay = 0.1,
                       .device = "cpu",
                       .checkpoint_dir = folder.path(),
                       .resume = true};
  const auto trained = [&](World& world, const World& pipe) {
    BareImpl model(pipe);
    auto data = halved_waves();
    return fit(model, objective, data, options, "bare", {}, world);
  };
  options.mesh = "pp=2";
  run_ranks({.size = 2}, [&](World& world) { trained(world, world); });
  // One process goes on as they would.
  options.epochs = 2;
  std::filesystem::copy(folder.path(), folder.path() / "copy");
  Report together;
  run_ranks({.size = 2}, [&](World& world) {
    const auto report = trained(world, world);
    if (world.rank() == 0) together = report;
  });
  options.mesh.clear();
  options.checkpoint_dir = folder.path() / "copy";
  run_ranks({.size = 1}, [&](World& world) {
    const auto alone = trained(world, World::create({}));
    EXPECT_EQ(alone.history.size(), 2U);
    EXPECT_NEAR(alone.test_loss, together.test_loss, 1e-6);
  });
}

TEST(FitStages, SayWhatIsWrong) {
  run_ranks({.size = 4}, [](World& world) {
    auto data = halved_waves();
    const auto error = [&](const World& pipe, const std::string& mesh, const Objective& objective) {
      PipedImpl model(pipe);
      return error_of([&] {
        fit(model, objective, data, {.batch_size = 6, .device = "cpu", .mesh = mesh}, "halves", {},
            world);
      });
    };
    const Mesh mesh(world, {{"dp", 2}, {"pp", 2}});
    const Mesh other(world, {{"pp", 2}, {"dp", 2}});
    EXPECT_TRUE(contains(error(mesh["pp"], "", kOfPiped),
                         "the model has stages (sullae::train::HasStages), whose ranks have the "
                         "same samples: expected --mesh pp=N, of as many ranks"));
    EXPECT_TRUE(contains(error(World::create({}), "pp=2", kOfPiped),
                         "--mesh pp=2: the model has no stages (sullae::train::HasStages)"));
    EXPECT_TRUE(contains(error(other["pp"], "pp=2", kOfPiped),
                         "the model's layers are in stages on ranks 0, 2: expected them on 0, 1"));
    // Ranks of other stages would not come to it.
    struct Normed : PipedImpl {
      explicit Normed(const World& pipe) : PipedImpl(pipe) {
        if (pipe.rank() == 0) register_module("norm", SyncBatchNorm2d(1));
      }
    };
    Normed normed(mesh["pp"]);
    EXPECT_EQ(
        error_of<InputError>([&] {
          fit(normed, kOfPiped, data, {.batch_size = 6, .device = "cpu", .mesh = "pp=2"}, "halves",
              {}, world);
        }),
        "--mesh pp=2: pp has norms on some ranks, and --sync-batch-norm waits for all of them");
    // By one name, and no one parameter.
    struct Different : PipedImpl {
      explicit Different(const World& pipe) : PipedImpl(pipe) {
        register_parameter("other", torch::zeros({2 + pipe.rank()}));
      }
    };
    Different different(mesh["pp"]);
    EXPECT_TRUE(contains(
        error_of<InputError>([&] {
          fit(different, kOfPiped, data, {.batch_size = 6, .device = "cpu", .mesh = "pp=2"},
              "halves", {}, world);
        }),
        "parameter 'other' is Float [2] on the rank of stage 0, and Float [3] on that of stage 1"));
    // By two names here, and one there.
    struct Twice : PipedImpl {
      explicit Twice(const World& pipe) : PipedImpl(pipe) {
        register_parameter("again", pipe.rank() == 0 ? scale : torch::ones({6}));
      }
    };
    Twice twice(mesh["pp"]);
    const auto names = error_of<InputError>([&] {
      fit(twice, kOfPiped, data, {.batch_size = 6, .device = "cpu", .mesh = "pp=2"}, "halves", {},
          world);
    });
    EXPECT_TRUE(contains(names,
                         "parameter 'again' is 'scale' on the rank of stage 0, and 'again' on that "
                         "of stage 1"))
        << names;
    // What the last rank's objective throws, all throw.
    struct Wrong final : Regression {
      using Regression::Regression;
      torch::Tensor loss(torch::nn::Module& model, const Batch& batch) const override {
        return dynamic_cast<PipedImpl&>(model).forward(batch.inputs.at(0));
      }
    };
    const auto told = error(mesh["pp"], "pp=2", Wrong(forward_of<PipedImpl>()));
    EXPECT_TRUE(contains(told, "Objective::loss gave 18 numbers, expected one")) << told;
  });
}

}  // namespace
}  // namespace sullae::testing

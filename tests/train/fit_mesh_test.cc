// fit() of models of one's own whose layers are in parts.
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

// Beside its parts it has what is whole, and differs from rank to rank at first.
struct PartsImpl : torch::nn::Module {
  PartsImpl(const World& tensor, int rank)
      : up(ColumnParallelLinearOptions{.in_features = 6, .out_features = 9}, tensor),
        down(RowParallelLinearOptions{.in_features = 9, .out_features = 6}, tensor) {
    register_module("up", up);
    register_module("down", down);
    shift = register_parameter("shift", torch::full({6}, 2.0 * rank));
    scale = register_buffer("scale", torch::full({6}, 1.0 + rank));
    const torch::NoGradGuard guard;
    // Without libtorch's generator, which threads would share.
    load_parameters(*this, {{"up.weight", wave({9, 6})},
                            {"up.bias", wave({9})},
                            {"down.weight", wave({6, 9})},
                            {"down.bias", wave({6})},
                            {"shift", shift.detach().clone()}});
  }
  static torch::Tensor wave(const std::vector<std::int64_t>& sizes) {
    const auto count = torch::empty(sizes).numel();
    return (torch::sin(torch::arange(count) * 1.7) * 0.4).view(sizes);
  }
  torch::Tensor forward(const torch::Tensor& x) { return down(torch::gelu(up(x * scale))) + shift; }
  ColumnParallelLinear up;
  RowParallelLinear down;
  torch::Tensor shift;
  torch::Tensor scale;
};

TensorData halves() {
  const auto x = torch::sin(torch::arange(21 * 6).view({21, 6}) * 0.7);
  return TensorData({x, x * 0.5}, {x, x * 0.5});
}

TEST(FitMesh, TrainsWhatOneProcessTrains) {
  TrainOptions options{.epochs = 3, .batch_size = 6, .lr = 0.01, .clip_norm = 0.1, .device = "cpu"};
  double alone = 0;
  const auto trained = [&](World& world, const World& tensor) {
    PartsImpl model(tensor, world.rank());
    const Regression objective(forward_of<PartsImpl>());
    auto data = halves();
    const auto report = fit(model, objective, data, options, "halves", {}, world);
    EXPECT_EQ(report.parameters, 9 * 6 + 9 + 6 * 9 + 6 + 6);
    // Rank 0's, and trained alike.
    EXPECT_EQ(model.scale.sum().item<double>(), 6);
    const auto all = allgather(model.shift.detach().unsqueeze(0), world);
    EXPECT_TRUE(torch::equal(all, all[0].expand_as(all)));
    return report.test_loss;
  };
  run_ranks({.size = 1}, [&](World& world) { alone = trained(world, world); });
  options.mesh = "tp=3";
  run_ranks({.size = 3}, [&](World& world) { EXPECT_NEAR(trained(world, world), alone, 1e-5); });
  options.mesh = "tp=2";
  run_ranks({.size = 4}, [&](World& world) {
    const Mesh mesh(world, {{"dp", 2}, {"tp", 2}});
    EXPECT_NEAR(trained(world, mesh["tp"]), alone, 1e-5);
  });
}

TEST(FitMesh, TheModelsRanksAreThoseOfTheMesh) {
  run_ranks({.size = 4}, [](World& world) {
    const Regression objective(forward_of<PartsImpl>());
    auto data = halves();
    // On every rank, also where number and size are as expected.
    const Mesh other(world, {{"tp", 2}, {"dp", 2}});
    PartsImpl model(other["tp"], 0);
    EXPECT_TRUE(contains(error_of<InputError>([&] {
                           fit(model, objective, data,
                               {.batch_size = 6, .device = "cpu", .mesh = "tp=2"}, "halves", {},
                               world);
                         }),
                         "the model's layers are in parts on ranks 0, 2: expected them on 0, 1"));
  });
}

TEST(FitMesh, SaysWhatIsWrong) {
  run_ranks({.size = 2}, [](World& world) {
    const Regression objective(forward_of<PartsImpl>());
    auto data = halves();
    const auto error = [&](const World& tensor, const std::string& mesh) {
      PartsImpl model(tensor, 0);
      return error_of<InputError>([&] {
        fit(model, objective, data, {.batch_size = 6, .device = "cpu", .mesh = mesh}, "halves", {},
            world);
      });
    };
    EXPECT_TRUE(contains(error(world, ""), "the model has layers in parts"));
    EXPECT_TRUE(contains(error(World::create({}), "tp=2"), "the model has no layers in parts"));
    EXPECT_TRUE(contains(error(world, "dp=2"), "the model has layers in parts"));
  });
}

}  // namespace
}  // namespace sullae::testing

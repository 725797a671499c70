// What docs/parallel.md shows, compiled and run.
#include "sullae/parallel.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "docs/block.h"
#include "sullae/torch.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

// clang-format off
struct MlpImpl : torch::nn::Module {
  explicit MlpImpl(const sullae::World& world)
      : up(sullae::ColumnParallelLinearOptions{.in_features = 64, .out_features = 256}, world),
        down(sullae::RowParallelLinearOptions{.in_features = 256, .out_features = 64}, world) {
    register_module("up", up);
    register_module("down", down);
  }
  torch::Tensor forward(const torch::Tensor& x) { return down(torch::gelu(up(x))); }
  sullae::ColumnParallelLinear up;
  sullae::RowParallelLinear down;
};
// clang-format on
TORCH_MODULE(Mlp);

TEST(ParallelPage, DividesParameters) {
  run_ranks({.size = 2}, [](World& world) {
    torch::Tensor x = torch::ones({4, 64});
    // clang-format off
    sullae::ShardedUnits units(world);
    std::vector<sullae::ShardedUnit<BlockImpl>> blocks;
    for (int i = 0; i < 12; ++i) blocks.push_back(units.shard(Block(64), "blocks." + std::to_string(i)));
    sullae::ShardedOptimizer optimizer(units, [](const auto& pieces) {
      return std::make_unique<torch::optim::Adam>(pieces.values(), 1e-3);
    });
    const auto before = optimizer.master_weights();
    optimizer.zero_grad();
    for (auto& block : blocks) x = block(x);
    x.square().mean().backward();
    optimizer.step();
    // clang-format on
    const auto after = optimizer.master_weights();
    for (const auto& [name, value] : after) EXPECT_FALSE(torch::equal(value, before.at(name)));
  });
}

TEST(ParallelPage, SavesParts) {
  const TemporaryDirectory folder;
  run_ranks({.size = 2}, [&](World& world) {
    Block model(64);
    ShardedOptimizer optimizer(
        model->named_parameters(),
        [](const auto& pieces) {
          return std::make_unique<torch::optim::Adam>(pieces.values(), 1e-3);
        },
        {}, world);
    world.barrier();
    if (world.rank() == 0) std::filesystem::current_path(folder.path());
    world.barrier();
    // clang-format off
    sullae::save_checkpoint("model.ckpt", *model, optimizer, {.metadata = {.numbers = {{"step", 1000}}}});   // on all ranks
    const auto metadata = sullae::load_checkpoint("model.ckpt", *model, optimizer);
    // clang-format on
    EXPECT_EQ(metadata.numbers.at("step"), 1000);
  });
  std::filesystem::current_path("/");
}

TEST(ParallelPage, DividesLayers) {
  run_ranks({.size = 2}, [](World& world) {
    Mlp mlp(world);
    EXPECT_EQ(mlp->forward(torch::ones({3, 64})).size(1), 64);
    EXPECT_EQ(gather_parameters(*mlp, world).at("up.weight").size(0), 256);
  });
}

TEST(ParallelPage, SavesLayersInParts) {
  const TemporaryDirectory folder;
  std::filesystem::current_path(folder.path());
  run_ranks({.size = 2}, [](World& world) {
    const Mesh mesh(world, {{"dp", 1}, {"tp", 2}});
    MlpImpl model(mesh["tp"]);
    // clang-format off
    const auto make = [](const auto& pieces) { return std::make_unique<torch::optim::Adam>(pieces.values(), 1e-3); };
    const auto adam = make(model.named_parameters());
    model.forward(torch::ones({3, 64})).sum().backward();
    adam->step();
    sullae::save_checkpoint("model.ckpt", model, {*adam, make}, mesh["tp"]);   // on the ranks of one mesh["tp"]
    sullae::load_checkpoint("model.ckpt", model, {*adam, make}, mesh["tp"]);   // on all
    // clang-format on
  });
  run_ranks({.size = 4}, [](World& world) {
    const Mesh mesh(world, {{"dp", 2}, {"tp", 2}});
    MlpImpl model(mesh["tp"]);
    const auto make = [](const auto& pieces) {
      return std::make_unique<torch::optim::Adam>(pieces.values(), 1e-3);
    };
    // clang-format off
    sullae::ShardedOptimizer sharded(model.named_parameters(), make, {.stage = 2}, mesh["dp"]);
    model.forward(torch::ones({3, 64})).sum().backward();
    sullae::clip_grad_norm(model, sharded, 1.0, world);                        // of the whole model
    sharded.step();
    sullae::save_checkpoint("model.ckpt", model, sharded, world);              // on all, as the next
    sullae::load_checkpoint("model.ckpt", model, sharded, world);
    // clang-format on
  });
  std::filesystem::current_path("/");
}

TEST(ParallelPage, PutsLayersOneAfterTheOther) {
  const TemporaryDirectory folder;
  std::filesystem::current_path(folder.path());
  run_ranks({.size = 4}, [](World& world) {
    const torch::nn::Sequential layers(torch::nn::Linear(8, 8), torch::nn::Tanh(),
                                       torch::nn::Linear(8, 8));
    const auto sample = torch::ones({4, 8});
    const auto inputs = torch::ones({16, 8});
    const auto targets = torch::zeros({16, 8});
    const auto mean_square = [](const torch::Tensor& output, const torch::Tensor& target) {
      return (output - target).square().mean();
    };
    // clang-format off
    sullae::Mesh mesh(world, {{"dp", 2}, {"pp", 2}});
    auto stages = sullae::divide(layers, sample, mesh);
    for (auto& stage : stages) sullae::broadcast_parameters(*stage.module, 0, mesh["dp"]);
    sullae::Pipeline pipe(std::move(stages), mesh["pp"], {.schedule = "1f1b", .micro_batches = 8});
    torch::optim::Adam adam(pipe.parameters().values(), 1e-3);
    sullae::DistributedOptimizer optimizer(adam, pipe.parameters(), {.backward_passes_per_step = 8}, mesh["dp"]);
    optimizer.zero_grad();
    const double loss = pipe.step(inputs, targets, mean_square);
    optimizer.step();
    // clang-format on
    EXPECT_LT(pipe.step(inputs, targets, mean_square), loss);
    const auto trained = pipe.forward(inputs);
    // clang-format off
    const auto make = [](const auto& parameters) { return std::make_unique<torch::optim::Adam>(parameters.values(), 1e-3); };
    sullae::save_checkpoint("model.ckpt", pipe, {adam, make}, world);   // on all ranks
    // clang-format on
    optimizer.step();
    // clang-format off
    sullae::load_checkpoint("model.ckpt", pipe, {adam, make}, world);
    // clang-format on
    const auto loaded = pipe.forward(inputs);
    EXPECT_TRUE(!trained.defined() || torch::equal(loaded, trained));
  });
  run_ranks({.size = 4}, [](World& world) {
    const torch::nn::Sequential layers(torch::nn::Linear(8, 8), torch::nn::Linear(8, 8));
    const auto inputs = torch::ones({16, 8});
    const auto targets = torch::zeros({16, 8});
    const auto mean_square = [](const torch::Tensor& output, const torch::Tensor& target) {
      return (output - target).square().mean();
    };
    const auto make = [](const auto& parameters) {
      return std::make_unique<torch::optim::Adam>(parameters.values(), 1e-3);
    };
    const Mesh mesh(world, {{"dp", 2}, {"pp", 2}});
    auto stages = divide(layers, inputs, mesh);
    for (auto& stage : stages) broadcast_parameters(*stage.module, 0, mesh["dp"]);
    Pipeline pipe(std::move(stages), mesh["pp"], {.micro_batches = 8});
    // clang-format off
    sullae::ShardedOptimizer sharded(pipe.parameters(), make, {.backward_passes_per_step = 8, .own_buckets = pipe.tied_parameters()}, mesh["dp"]);
    const double loss = pipe.step(inputs, targets, mean_square);
    pipe.synchronize_tied(sharded);                                     // where any are
    pipe.clip_grad_norm(1.0, sharded);                                  // of the whole model
    sharded.step();
    sullae::save_checkpoint("model.ckpt", pipe, sharded, world);        // on all, as the next
    sullae::load_checkpoint("model.ckpt", pipe, sharded, world);
    // clang-format on
    EXPECT_LT(pipe.step(inputs, targets, mean_square), loss);
  });
  std::filesystem::current_path("/");
}

}  // namespace
}  // namespace sullae::testing

// Checkpoints of models that are whole on no rank.
#include <functional>

#include "parallel/checkpoint/saved_net.h"
#include "sullae/parallel/mesh.h"
#include "sullae/parallel/sharded_units.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

TEST_F(ShardedCheckpoint, OfUnitsGoesToAnyRanksAndToOneProcess) {
  const auto& make = kMakers.at("Adam");
  struct BlockImpl : torch::nn::Module {
    torch::nn::Linear linear{register_module("linear", torch::nn::Linear(150, 150))};
    torch::nn::BatchNorm1d norm{register_module("norm", torch::nn::BatchNorm1d(150))};
    torch::nn::Linear frozen{register_module("frozen", torch::nn::Linear(2, 2))};
    torch::Tensor empty = register_parameter("empty", torch::zeros({0}));
    torch::Tensor forward(const torch::Tensor& x) { return norm(linear(x)); }
  };
  const auto make_block = [](int i) {
    auto block = std::make_shared<BlockImpl>();
    const torch::NoGradGuard guard;
    for (auto& parameter : block->linear->parameters())
      parameter.copy_(torch::sin(torch::arange(parameter.numel()) + i).view(parameter.sizes()) *
                      0.1);
    for (auto& parameter : block->frozen->parameters()) parameter.fill_(i).requires_grad_(false);
    return block;
  };
  using Body =
      std::function<void(torch::nn::Module&, ShardedOptimizer&, const std::function<void()>&)>;
  const auto run = [&](int shards, int replicas, const Body& body) {
    run_ranks({.size = shards * replicas}, [&](World& world) {
      const Mesh mesh(world, {{"replicas", replicas}, {"shard", shards}});
      ShardedUnits units(mesh["shard"], mesh["replicas"]);
      std::vector<ShardedUnit<BlockImpl>> blocks;
      for (int i = 0; i < 3; ++i)
        blocks.push_back(units.shard(torch::nn::ModuleHolder<BlockImpl>(make_block(i)),
                                     "blocks." + std::to_string(i)));
      torch::nn::Module rest;
      rest.register_buffer("mean", torch::full({3}, 0.5));
      ShardedOptimizer optimizer(units, make);
      body(rest, optimizer, [&] {
        auto x = torch::cos(torch::arange(kBatch * 150).view({kBatch, 150}) * 0.01);
        optimizer.zero_grad();
        for (auto& block : blocks) x = torch::tanh(block(x));
        (x - 0.3).pow(2).mean().backward();
        optimizer.step();
      });
    });
  };
  run(3, 1, [&](auto& rest, auto& optimizer, const auto& step) {
    step();
    step();
    save_checkpoint(file_, rest, optimizer);
    save_checkpoint(whole_, rest, optimizer);  // twice the same
    step();
    save_checkpoint(whole_, rest, optimizer);
  });
  const auto load = [&](const std::filesystem::path& file) {
    auto whole = std::make_shared<torch::nn::Module>();
    whole->register_buffer("mean", torch::zeros({3}));
    auto blocks = whole->register_module("blocks", std::make_shared<torch::nn::Module>());
    for (int i = 0; i < 3; ++i) blocks->register_module(std::to_string(i), make_block(7));
    const auto optimizer = make(whole->named_parameters());  // also what is frozen, as one is made
    load_checkpoint(file, *whole, optimizer.get());
    EXPECT_EQ(whole->named_parameters()["blocks.2.frozen.weight"].sum().item<double>(), 8);
    EXPECT_GT(whole->named_buffers()["blocks.0.norm.num_batches_tracked"].item<int>(), 1);
    EXPECT_EQ(whole->buffers()[0].sum().item<double>(), 1.5);
    return whole->named_parameters();
  };
  const auto expected = load(whole_);
  const std::string weight = "blocks.0.linear.weight";
  EXPECT_FALSE(torch::equal(load(file_)[weight], expected[weight]));
  for (const auto& [shards, replicas] : {std::pair{1, 1}, {2, 1}, {4, 1}, {2, 2}, {1, 3}}) {
    run(shards, replicas, [&](auto& rest, auto& optimizer, const auto& step) {
      rest.buffers()[0].fill_(9);
      load_checkpoint(file_, rest, optimizer);
      EXPECT_EQ(rest.buffers()[0].sum().template item<double>(), 1.5);
      step();
      save_checkpoint(again_, rest, optimizer);
    });
    const auto found = load(again_);
    for (const auto& item : expected)
      EXPECT_TRUE(torch::allclose(found[item.key()], item.value(), 0, 1e-6))
          << shards << " x " << replicas << ' ' << item.key();
  }
  // What those who read or write meet, their replicas are told, too.
  run(2, 2, [&](auto& rest, auto& optimizer, const auto&) {
    const auto nowhere = file_.string() + ".none/model.ckpt";
    for (const auto& error : {error_of([&] { load_checkpoint(nowhere, rest, optimizer); }),
                              error_of([&] { save_checkpoint(nowhere, rest, optimizer); })})
      EXPECT_TRUE(contains(error, nowhere)) << error;
  });
}

struct LineImpl : torch::nn::Module {
  torch::nn::Linear linear{register_module("linear", torch::nn::Linear(9, 9))};
  torch::Tensor forward(const torch::Tensor& x) { return linear(x); }
};
TORCH_MODULE(Line);

TEST_F(ShardedCheckpoint, OfWeightsAloneIsSavedAndLoaded) {
  const auto model_of = [](const Line& line) {
    torch::nn::Module model;
    model.register_module("line", line.ptr());
    return model;
  };
  const auto value_of = [](const Line& line, const torch::Tensor& x) {
    return torch::linear(x, line->linear->weight, line->linear->bias).sum().item<double>();
  };
  const auto input = torch::arange(18, torch::kFloat32).view({2, 9});
  const Line first;
  const double expected = value_of(first, input);
  run_ranks({.size = 3}, [&](World& world) {
    Line line;
    ShardedUnits units(world);
    line->linear->weight.detach().copy_(first->linear->weight);
    line->linear->bias.detach().copy_(first->linear->bias);
    const auto unit = units.shard(line, "line");
    ShardedOptimizer optimizer(units, kMakers.at("Adam"));
    save_weights(file_, model_of(line), optimizer, {.metadata = {.numbers = {{"step", 3}}}});
  });
  // By one process, without an optimizer; and by ranks, before there is one, also of a checkpoint
  // that has more.
  Line alone;
  auto whole = model_of(alone);
  EXPECT_EQ(load_checkpoint(file_, whole).numbers.at("step"), 3);
  EXPECT_EQ(value_of(alone, input), expected);
  torch::optim::Adam adam(alone->parameters());
  EXPECT_TRUE(contains(error_of<InputError>([&] { load_checkpoint(file_, whole, &adam); }),
                       "has no optimizer state"));
  save_checkpoint(whole_, whole, &adam, {.metadata = {.numbers = {{"step", 4}}}});
  for (const int ranks : {1, 2}) {
    for (const auto& [file, step] : {std::pair{file_, 3}, std::pair{whole_, 4}}) {
      run_ranks({.size = ranks}, [&](World& world) {
        const Line line;
        ShardedUnits units(world);
        auto unit = units.shard(line, "line");
        auto model = model_of(line);
        EXPECT_EQ(load_weights(file, model, units).numbers.at("step"), step);
        const torch::NoGradGuard guard;
        EXPECT_EQ(unit(input).sum().item<double>(), expected);
        const auto error = error_of<CheckpointError>(
            [&] { load_weights(file_.string() + ".none", model, units); });
        EXPECT_TRUE(contains(error, ".none")) << error;
      });
    }
  }
}

}  // namespace
}  // namespace sullae::testing

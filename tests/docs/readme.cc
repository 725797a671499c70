// The README's program, whole, and what the pages on data and programs show: compiled, so that what
// users copy is right. cli/docs_test.cc finds each block of code in these files.
#include <gtest/gtest.h>
#include <sullae/data.h>
#include <sullae/elastic.h>
#include <sullae/parallel.h>
#include <sullae/run_log.h>
#include <sullae/torch.h>
#include <sullae/train.h>
#include <torch/torch.h>

#include <filesystem>
#include <vector>

#include "docs/block.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

struct NetImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return linear(x); }
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(2, 1));
};
TORCH_MODULE(Net);

namespace elastic_program {

constexpr std::size_t epochs = 2;
constexpr std::size_t samples = 10;
constexpr std::size_t batch_size = 4;

torch::Tensor loss_of(Net& model, const std::vector<std::size_t>& batch) {
  return model->forward(torch::full({1, 2}, static_cast<double>(batch.size()))).square().sum();
}

int main() {
  // clang-format off
  Net model;
  torch::optim::SGD sgd(model->parameters(), 0.01);
  std::size_t epoch = 0;
  std::size_t taken = 0;  // samples of this epoch, by all ranks
  sullae::elastic::State state(*model, sgd);
  state.track("epoch", epoch);
  state.track("taken", taken);
  const auto outcome = sullae::elastic::run(state, {.min = 1, .max = 4}, [&](sullae::World& world) {
    sullae::DistributedOptimizer optimizer(sgd, model->named_parameters(), {}, world);
    sullae::DistributedSampler sampler(samples, {}, world);
    for (; epoch < epochs; ++epoch, taken = 0) {
      sampler.set_epoch(epoch, taken);  // the others, divided among the ranks that there are
      while (auto batch = sampler.next(batch_size / world.size())) {
        optimizer.zero_grad();
        loss_of(model, *batch).backward();
        optimizer.step();
        taken += batch->size() * world.size();
        state.step_done();
      }
    }
  });
  if (outcome == sullae::elastic::Outcome::left) return 0;  // this rank was asked to go, and the others train on
  // clang-format on
  EXPECT_EQ(state.steps(), 6);
  sullae::shutdown();
  return 0;
}

}  // namespace elastic_program

namespace program {

constexpr std::size_t dataset_size = 8;

int main() {
  // clang-format off
  sullae::init();
  auto device = sullae::local_device();
  Net model; model->to(device);
  torch::optim::SGD sgd(model->parameters(), 0.01 * sullae::size());
  sullae::DistributedOptimizer optimizer(sgd, model->named_parameters());
  sullae::broadcast_parameters(*model, /*root=*/0);
  auto sampler = sullae::DistributedSampler(dataset_size);
  const auto loss = model->forward(torch::ones({1, 2}, device)).square().sum();
  optimizer.zero_grad();
  loss.backward();
  optimizer.step();
  EXPECT_EQ(sampler.indices().size(), dataset_size);
  if (sullae::rank() == 0) sullae::save_checkpoint("model.ckpt", *model, &sgd);
  // clang-format on
  sullae::shutdown();
  return 0;
}

}  // namespace program

TEST(Readme, ItsProgramRuns) {
  const TemporaryDirectory directory;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  EXPECT_EQ(program::main(), 0);
  std::filesystem::current_path(before);
  Net model;
  load_checkpoint(directory.path() / "model.ckpt", *model);
}

// docs/dashboard.md
void keeps(std::int64_t step, double loss) {
  // clang-format off
  sullae::RunLog log("runs/first", {.settings = {{"lr", "0.1"}}, .ranks = sullae::size()});
  log.scalars(step, {{"train/loss", loss}});
  log.completed();
  // clang-format on
}

TEST(Dashboard, ItsRunIsKept) {
  const TemporaryDirectory directory;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  sullae::init();
  keeps(1, 0.5);
  sullae::shutdown();
  EXPECT_TRUE(std::filesystem::exists("runs/first/run.json"));
  std::filesystem::current_path(before);
}

// docs/data.md
[[maybe_unused]] void reads_images(std::size_t i, std::uint64_t seed, std::uint64_t epoch,
                                   float* pixels) {
  // clang-format off
  auto set = sullae::data::open_dataset({"train/part-*"});
  sullae::data::ImageTransform transform({.augmentation = sullae::data::Augmentation::random_resized_crop});
  transform.apply(set->read(i), sullae::data::Random(seed, epoch, i), pixels);
  // clang-format on
}

// docs/programs.md
void fits(const torch::Tensor& images, const torch::Tensor& labels,
          const torch::Tensor& test_images, const torch::Tensor& test_labels) {
  // clang-format off
  sullae::init();
  Net model;
  sullae::train::Classification objective(sullae::train::forward_of<NetImpl>());
  sullae::train::TensorData data({images, labels}, {test_images, test_labels});
  sullae::train::fit(*model, objective, data, {.epochs = 3, .batch_size = 64, .checkpoint_dir = "checkpoints", .resume = true});
  // clang-format on
  sullae::shutdown();
}

// docs/parallel.md
// clang-format off
struct DeepImpl : torch::nn::Module, sullae::train::HasUnits {
  explicit DeepImpl(const sullae::World& world) : parts(world) {
    for (int i = 0; i < 12; ++i) {
      Block block(64);
      block->to(sullae::local_device(world));
      const auto name = "block" + std::to_string(i);
      register_module(name, block.ptr());
      blocks.push_back(parts.shard(block, name));
    }
  }
  torch::Tensor forward(torch::Tensor x) {
    for (auto& block : blocks) x = block(x);
    return x;
  }
  sullae::ShardedUnits* units() override { return &parts; }

  sullae::ShardedUnits parts;
  std::vector<sullae::ShardedUnit<BlockImpl>> blocks;
};
// clang-format on

// Backward passes of ranks that are threads would wait for each other in libtorch's one thread for
// a GPU.
TEST(ParallelPage, FitsUnits) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "there is a GPU here, and ranks are threads";
  run_ranks({.size = 2}, [](World& world) {
    const train::Regression objective(train::forward_of<DeepImpl>());
    const auto x = torch::sin(torch::arange(20 * 64).view({20, 64}) * 0.1);
    train::TensorData data({x, x * 0.5});
    // clang-format off
    DeepImpl model(world);
    const auto report = sullae::train::fit(model, objective, data, {.epochs = 3, .batch_size = 8, .shard = "parameters"}, "deep", {}, world);
    // clang-format on
    EXPECT_LT(report.history.back().train_loss, report.history.front().train_loss);
    EXPECT_EQ(error_of<InputError>([&] {
                train::fit(model, objective, data, {.shard = "gradients"}, "deep", {}, world);
              }),
              "--shard gradients: the model is made of units, whose parameters are in parts: "
              "expected --shard parameters");
  });
}

// docs/parallel.md
// clang-format off
struct StackImpl : torch::nn::Module, sullae::train::HasStages {
  explicit StackImpl(const sullae::World& pipe) : world(pipe), layer(64, 64) {
    register_module("layer" + std::to_string(pipe.rank()), layer);
  }
  torch::Tensor forward(const torch::Tensor& x) { return layer(arrived.defined() ? arrived : x); }   // on the last rank, by the objective
  const sullae::World* stages() const override { return &world; }
  torch::Tensor run_stage(int, const sullae::train::Batch& batch, const torch::Tensor& before) override {
    return torch::tanh(layer(before.defined() ? before : batch.inputs[0]));
  }
  void begin_with(const torch::Tensor& before) override { arrived = before; }
  sullae::World world;
  torch::nn::Linear layer;
  torch::Tensor arrived;
};
// clang-format on

TEST(ParallelPage, FitsStages) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "there is a GPU here, and ranks are threads";
  run_ranks({.size = 4}, [](World& world) {
    const train::Regression objective(train::forward_of<StackImpl>());
    const auto x = torch::sin(torch::arange(20 * 64).view({20, 64}) * 0.1);
    train::TensorData data({x, x * 0.5});
    // clang-format off
    sullae::Mesh mesh(world, {{"dp", 2}, {"pp", 2}});
    StackImpl model(mesh["pp"]);
    const auto report = sullae::train::fit(model, objective, data, {.epochs = 3, .batch_size = 8, .accumulation_steps = 4, .mesh = "dp=2,pp=2"}, "stack", {}, world);
    // clang-format on
    EXPECT_LT(report.history.back().train_loss, report.history.front().train_loss);
  });
}

TEST(Elastic, ItsProgramRuns) { elastic_program::main(); }

TEST(Programs, ItsTrainerRuns) {
  const TemporaryDirectory directory;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  const auto images = torch::rand({10, 2});
  const auto labels = torch::zeros({10}, torch::kInt64);
  fits(images, labels, images, labels);
  EXPECT_TRUE(std::filesystem::exists("checkpoints/model-best.ckpt"));
  std::filesystem::current_path(before);
}

// docs/programs.md
[[maybe_unused]] void exports(const Net& model) {
  // clang-format off
  sullae::export_torchscript(*model, R"(
def forward(self, words):
    x = torch.embedding(self.embedding_weight, words)
    return torch.softmax(torch.linear(x.mean(1), self.head_weight, self.head_bias), 1)
)", {.repository = "models", .name = "mine",
     .inputs = {{"words", torch::kInt64, {-1, -1}}}, .outputs = {{"probabilities", torch::kFloat32, {-1, 3}}}});
  // clang-format on
}

}  // namespace
}  // namespace sullae::testing

// What stages save is what one process saves, and goes to any number of stages and ranks.
#include "sullae/torch/checkpoint.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <mutex>

#include "parallel/pipeline/small_layers.h"
#include "parallel/pipeline/tied_layers.h"
#include "parallel/pipeline/wide_stage.h"
#include "parallel/sharded_state.h"
#include "sullae/parallel/mesh.h"
#include "sullae/parallel/pipeline.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using namespace small_layers;
using Tensors = std::map<std::string, torch::Tensor>;

constexpr int kLayers = 8;

// Buffers, a parameter that is not trained, and one that has two names.
torch::nn::Sequential make_layers(int from = 0, int to = kLayers) {
  torch::nn::Sequential layers;
  for (int i = from; i < to; ++i) {
    if (i % 2 == 0)
      layers->push_back(std::to_string(i), torch::nn::Linear(kSize, kSize));
    else
      layers->push_back(std::to_string(i), torch::nn::BatchNorm1d(kSize));
  }
  layers->to(torch::kFloat64);
  set_values(*layers);
  for (const auto& item : layers->named_parameters()) {
    if (item.key() == "1.bias") item.value().requires_grad_(false);
  }
  // Of the whole, which libtorch names before those of layers.
  if (from == 0) layers->register_parameter("first", torch::full({kSize}, 0.1, torch::kFloat64));
  if (to == kLayers) layers->register_parameter("last", torch::full({kSize}, 0.2, torch::kFloat64));
  for (const auto& child : layers->named_children()) {
    if (child.key() == "4")
      child.value()->register_parameter("again", child.value()->named_parameters()["weight"]);
  }
  return layers;
}

// Of ranks that have so many each.
std::vector<PipelineStage> stages_of(const World& world, int per_rank) {
  std::vector<PipelineStage> stages;
  const int all = world.size() * per_rank;
  for (int stage = world.rank(); stage < all; stage += world.size())
    stages.emplace_back(make_layers(stage * kLayers / all, (stage + 1) * kLayers / all));
  return stages;
}

std::unique_ptr<torch::optim::Optimizer> make_adam(const ShardedOptimizer::Pieces& pieces) {
  return std::make_unique<torch::optim::Adam>(pieces.values(), torch::optim::AdamOptions(0.01));
}

// Each once.
ShardedOptimizer::Pieces own_of(const Pipeline& pipe) {
  ShardedOptimizer::Pieces own;
  for (const auto& item : pipe.parameters()) {
    if (item.key() != "4.again") own.insert(item.key(), item.value());
  }
  return own;
}

void add_state(Tensors& all, const std::string& name, const torch::Tensor& parameter,
               const torch::optim::Optimizer& optimizer) {
  all[name] = parameter.detach().clone();
  for (const auto& [its, value] : state_of(optimizer, parameter))
    all[name + ' ' + its] =
        value.isTensor() ? value.toTensor().clone() : torch::tensor(value.toInt());
}

// A pipeline and its optimizer: all that it has, after some steps.
struct Trained {
  explicit Trained(const World& of, int per_rank = 1)
      : world(of),
        stages(stages_of(of, per_rank)),
        pipe(stages, of, {.schedule = per_rank > 1 ? "interleaved" : "1f1b", .micro_batches = 4}),
        adam(make_adam(own_of(pipe))) {}
  PartsOptimizer optimizer() { return {*adam, make_adam}; }
  void run(int first, int last) {
    for (int step = first; step < last; ++step) {
      adam->zero_grad();
      pipe.step(inputs_of(step), targets_of(step), mean_square);
      for (const auto& item : pipe.parameters()) {
        if (item.key() == "first" || item.key() == "last")
          torch::Tensor(item.value()).mutable_grad() = item.value().detach() * 3;
      }
      adam->step();
    }
  }
  void add_to(Tensors& all, std::mutex& mutex) const {
    const std::lock_guard lock(mutex);
    for (const auto& item : own_of(pipe)) add_state(all, item.key(), item.value(), *adam);
    for (const auto& stage : stages) {
      for (const auto& item : stage.module->named_buffers()) all[item.key()] = item.value().clone();
    }
  }
  World world;
  std::vector<PipelineStage> stages;
  Pipeline pipe;
  std::unique_ptr<torch::optim::Optimizer> adam;
};

void expect_equal(const Tensors& all, const Tensors& expected) {
  ASSERT_EQ(all.size(), expected.size());
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(all.contains(name)) << name;
    EXPECT_TRUE(torch::equal(all.at(name), value)) << name;
  }
}

class PipelineCheckpoint : public ::testing::Test {
 protected:
  // What three ranks have after three steps, in file_, and after two more.
  void train_on_three() {
    run_ranks({.size = 3}, [&](World& world) {
      Trained trained(world);
      trained.run(0, 3);
      CheckpointMetadata metadata;
      if (world.rank() == 0) metadata.numbers["step"] = 3;
      save_checkpoint(file_, trained.pipe, trained.optimizer(), world, {.metadata = metadata});
      trained.add_to(saved_, mutex_);
      trained.run(3, 5);
      trained.add_to(later_, mutex_);
    });
  }

  TemporaryDirectory folder_;
  std::filesystem::path file_ = folder_.path() / "checkpoint";
  std::filesystem::path again_ = folder_.path() / "again";
  std::mutex mutex_;
  Tensors saved_;
  Tensors later_;
};

TEST_F(PipelineCheckpoint, GoesToAnyStagesEqualToTheBit) {
  train_on_three();
  auto from = file_;
  for (const auto& [ranks, per_rank] : {std::pair{1, 1}, {2, 2}, {4, 2}, {5, 1}, {3, 1}}) {
    SCOPED_TRACE(::testing::Message() << ranks << " ranks with " << per_rank);
    Tensors loaded;
    Tensors later;
    run_ranks({.size = ranks}, [&](World& world) {
      Trained trained(world, per_rank);
      trained.run(0, 1);  // it had something else
      const auto metadata = load_checkpoint(from, trained.pipe, trained.optimizer(), world);
      EXPECT_EQ(metadata.numbers.at("step"), 3);
      trained.add_to(loaded, mutex_);
      save_checkpoint(again_, trained.pipe, trained.optimizer(), world, {.metadata = metadata});
      trained.run(3, 5);
      trained.add_to(later, mutex_);
    });
    expect_equal(loaded, saved_);
    expect_equal(later, later_);
    from = again_;
  }
}

// Who knows nothing of stages has the whole, and gives it to stages.
TEST_F(PipelineCheckpoint, IsThatOfOneProcess) {
  train_on_three();
  const auto whole = [](const torch::nn::Sequential& layers) {
    ShardedOptimizer::Pieces parameters;
    for (const auto& item : layers->named_parameters()) {
      if (item.key() != "4.again") parameters.insert(item.key(), item.value());
    }
    return parameters;
  };
  auto layers = make_layers();
  const auto adam = make_adam(whole(layers));
  EXPECT_EQ(load_checkpoint(file_, *layers, adam.get()).numbers.at("step"), 3);
  Tensors loaded;
  for (const auto& item : whole(layers)) add_state(loaded, item.key(), item.value(), *adam);
  for (const auto& item : layers->named_buffers()) loaded[item.key()] = item.value().clone();
  expect_equal(loaded, saved_);

  save_checkpoint(again_, *layers, adam.get());
  Tensors back;
  Tensors weights;
  run_ranks({.size = 2}, [&](World& world) {
    Trained trained(world);
    load_checkpoint(again_, trained.pipe, trained.optimizer(), world);
    trained.add_to(back, mutex_);
    save_weights(file_, trained.pipe, world);
    Trained served(world);
    load_weights(file_, served.pipe, world);
    for (const auto& item : served.pipe.parameters()) {
      const std::lock_guard lock(mutex_);
      weights[item.key()] = item.value().detach().clone();
    }
  });
  expect_equal(back, saved_);
  for (const auto& [name, value] : weights)
    EXPECT_TRUE(torch::equal(value, saved_.at(name == "4.again" ? "4.weight" : name))) << name;
  auto served = make_layers();
  load_checkpoint(file_, *served);
  EXPECT_TRUE(torch::equal(served->named_parameters()["0.weight"], saved_.at("0.weight")));
}

// Stages with layers in parts, by a world that has both.
TEST_F(PipelineCheckpoint, HasLayersInParts) {
  const auto make_sgd = [](const ShardedOptimizer::Pieces& pieces) {
    return std::make_unique<torch::optim::SGD>(pieces.values(),
                                               torch::optim::SGDOptions(0.1).momentum(0.9));
  };
  struct Piped {
    Piped(const World& pipes, const World& tensor)
        : pipe(
              [&] {
                std::vector<PipelineStage> stages;
                for (int stage = pipes.rank(); stage < 2; stage += pipes.size())
                  stages.emplace_back(Wide(tensor, stage), "stage" + std::to_string(stage));
                return stages;
              }(),
              pipes, {.schedule = "interleaved", .micro_batches = 3}),
          sgd(pipe.parameters().values(), torch::optim::SGDOptions(0.1).momentum(0.9)) {}
    double run(int step) {
      sgd.zero_grad();
      const double loss = pipe.step(inputs_of(step), targets_of(step), mean_square);
      sgd.step();
      return loss;
    }
    Pipeline pipe;
    torch::optim::SGD sgd;
  };
  double expected = 0;
  run_ranks({.size = 4}, [&](World& world) {
    const Mesh mesh(world, {{"pp", 2}, {"tp", 2}});
    Piped piped(mesh["pp"], mesh["tp"]);
    for (int step = 0; step < 3; ++step) piped.run(step);
    const World all = mesh.across({"pp", "tp"});
    save_checkpoint(file_, piped.pipe, {piped.sgd, make_sgd}, all);
    EXPECT_TRUE(contains(error_of([&] {
                           save_checkpoint(again_, piped.pipe, {piped.sgd, make_sgd}, mesh["tp"]);
                         }),
                         mesh["pp"].rank() == 0 ? "have stages 0 of 2" : "have stages 1 of 2"));
    const auto error = error_of([&] {
      save_checkpoint(again_, piped.pipe, {piped.sgd, make_sgd}, mesh["pp"]);
    });
    EXPECT_TRUE(contains(error, "parameter 'stage0.up.weight' has 10 along dimension 0")) << error;
    EXPECT_TRUE(contains(error, "expected a world whose ranks have all of it, in parts")) << error;
    const double loss = piped.run(3);
    if (world.rank() == 0) expected = loss;
  });
  EXPECT_FALSE(std::filesystem::exists(again_));
  for (const auto& dimensions : {std::vector<Mesh::Dimension>{{"pp", 1}, {"tp", 1}},
                                 {{"pp", 1}, {"tp", 3}},
                                 {{"pp", 2}, {"tp", 1}}}) {
    SCOPED_TRACE(to_text(dimensions));
    run_ranks({.size = dimensions[0].size * dimensions[1].size}, [&](World& world) {
      const Mesh mesh(world, dimensions);
      Piped piped(mesh["pp"], mesh["tp"]);
      load_checkpoint(file_, piped.pipe, {piped.sgd, make_sgd}, mesh.across({"pp", "tp"}));
      EXPECT_NEAR(piped.run(3), expected, 1e-12);
    });
  }
}

// By one name on several ranks, as in one process: where it is trained is where it is saved from,
// and to both it is loaded.
TEST_F(PipelineCheckpoint, HasOnceWhatIsTiedByOneName) {
  const auto texts = texts_of_seven();
  torch::nn::Sequential whole({{"tokens", embedding()}, {"body", middle()}});
  const auto loss_of = [&] {
    const auto weight = whole->named_parameters()["tokens.weight"];
    const auto vectors = torch::nn::functional::embedding(texts, weight);
    const auto states = whole->ptr<torch::nn::LinearImpl>(1)->forward(vectors);
    return cross_entropy(torch::linear(states, weight), texts);
  };
  const auto adam = make_adam(whole->named_parameters());
  std::vector<double> norms;
  const auto run_alone = [&] {
    adam->zero_grad();
    loss_of().backward();
    norms.push_back(torch::nn::utils::clip_grad_norm_(whole->parameters(), 0.3));
    adam->step();
  };
  for (int step = 0; step < 6; ++step) run_alone();
  // The world has the model twice.
  run_ranks({.size = 6}, [&](World& world) {
    const Mesh mesh(world, {{"dp", 2}, {"pp", 3}});
    const int stage = mesh["pp"].rank();
    std::vector<PipelineStage> stages;
    if (stage == 0) stages.emplace_back(embedding(), "tokens");
    if (stage == 1) stages.emplace_back(middle(), "body");
    if (stage == 2) stages.emplace_back(Head(), "tokens");
    Pipeline pipe(stages, mesh["pp"], {.micro_batches = 3, .tied = {{"tokens.weight"}}});
    const auto own = make_adam(pipe.parameters());
    const auto run = [&](std::size_t first, std::size_t last) {
      for (std::size_t step = first; step < last; ++step) {
        own->zero_grad();
        pipe.step(texts, texts, cross_entropy);
        pipe.synchronize_tied();
        EXPECT_NEAR(pipe.clip_grad_norm(0.3), norms[step], 1e-10);
        own->step();
      }
    };
    run(0, 3);
    save_checkpoint(file_, pipe, {*own, make_adam}, world);
    for (const auto& item : pipe.parameters()) item.value().detach().zero_();
    load_checkpoint(file_, pipe, {*own, make_adam}, world);
    run(3, 5);
    const auto gathered = pipe.gather();
    EXPECT_TRUE(stage > 0 || gathered->parameters().size() == 3);
  });
  // And one process goes on.
  load_checkpoint(file_, *whole, adam.get());
  const auto expected = std::exchange(norms, {});
  for (int step = 3; step < 6; ++step) run_alone();
  for (std::size_t step = 0; step < 3; ++step) EXPECT_NEAR(norms[step], expected[3 + step], 1e-10);
}

TEST_F(PipelineCheckpoint, MistakesAreToldOnEveryRank) {
  run_ranks({.size = 2}, [&](World& world) {
    Trained trained(world);
    save_weights(file_, trained.pipe, world);
    EXPECT_TRUE(contains(
        error_of([&] { load_checkpoint(file_, trained.pipe, trained.optimizer(), world); }),
        "has no optimizer state"));
    std::vector<PipelineStage> stages;
    stages.emplace_back(torch::nn::Linear(kSize, kSize), "other" + std::to_string(world.rank()));
    Pipeline other(stages, world, {});
    EXPECT_TRUE(contains(error_of([&] { load_weights(file_, other, world); }), "other0.weight"));
    EXPECT_TRUE(contains(
        error_of([&] { save_weights(folder_.path() / "none" / "file", other, world); }), "none"));
  });
}

}  // namespace
}  // namespace sullae::testing

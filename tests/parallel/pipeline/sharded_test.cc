// Stages whose optimizer the ranks that have the same divide: what one process trains, and saves.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>
#include <set>

#include "parallel/pipeline/tied_layers.h"
#include "sullae/parallel/mesh.h"
#include "sullae/parallel/pipeline.h"
#include "sullae/parallel/tensor_parallel.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using namespace small_layers;
using Weights = std::map<std::string, torch::Tensor>;
constexpr double kMost = 0.3;

std::unique_ptr<torch::optim::Optimizer> make_adam_of(const ShardedOptimizer::Pieces& pieces) {
  return std::make_unique<torch::optim::Adam>(pieces.values(), torch::optim::AdamOptions(0.01));
}

Weights copies_of(const torch::OrderedDict<std::string, torch::Tensor>& parameters) {
  Weights weights;
  for (const auto& item : parameters) weights[item.key()] = item.value().detach().clone();
  return weights;
}

void expect_close(const Weights& weights, const Weights& expected, double most) {
  for (const auto& [name, value] : weights)
    EXPECT_LE((expected.at(name) - value).abs().max().item<double>(), most) << name;
}

// One process's: texts are read, and scored, by the same vectors.
struct Whole {
  double run() {
    adam->zero_grad();
    const auto texts = texts_of_seven();
    const auto weight = layers->named_parameters()["tokens.weight"];
    auto x = torch::nn::functional::embedding(texts, weight);
    for (const std::size_t body : {1U, 2U})
      x = layers->ptr<torch::nn::LinearImpl>(body)->forward(x);
    cross_entropy(torch::linear(x, weight), texts).backward();
    const double norm = torch::nn::utils::clip_grad_norm_(layers->parameters(), kMost);
    adam->step();
    return norm;
  }
  torch::nn::Sequential layers{
      {{"tokens", embedding()}, {"first", middle()}, {"second", middle()}}};
  std::unique_ptr<torch::optim::Optimizer> adam = make_adam_of(layers->named_parameters());
};

// The ranks of a mesh: four stages, on four ranks, or on two with two each.
struct Piped {
  Piped(const World& all, const std::vector<Mesh::Dimension>& dimensions, int stage)
      : world(all),
        mesh(all, dimensions),
        pipe(stages_of(mesh["pp"]), mesh["pp"],
             {.schedule = mesh["pp"].size() == 4 ? "1f1b" : "interleaved",
              .micro_batches = 2,
              .tied = {{"tokens.weight"}}}),
        optimizer(pipe.parameters(), make_adam_of,
                  {.stage = stage,
                   .backward_passes_per_step = 2,
                   .bucket_bytes = 100,
                   .own_buckets = pipe.tied_parameters()},
                  mesh["dp"]) {}

  static std::vector<PipelineStage> stages_of(const World& pp) {
    std::vector<PipelineStage> stages;
    for (int stage = pp.rank(); stage < 4; stage += pp.size()) {
      if (stage == 0) stages.emplace_back(embedding(), "tokens");
      if (stage == 1) stages.emplace_back(middle(), "first");
      if (stage == 2) stages.emplace_back(middle(), "second");
      if (stage == 3) stages.emplace_back(Head(), "tokens");
    }
    return stages;
  }

  double run() {
    const World& data = mesh["dp"];
    const std::int64_t own = texts_of_seven().size(0) / data.size();
    const auto texts = texts_of_seven().narrow(0, data.rank() * own, own);
    optimizer.zero_grad();
    pipe.step(texts, texts, cross_entropy);
    pipe.synchronize_tied(optimizer);
    const double norm = pipe.clip_grad_norm(kMost, optimizer);
    optimizer.step();
    return norm;
  }

  World world;
  Mesh mesh;
  Pipeline pipe;
  ShardedOptimizer optimizer;
};

const std::vector<std::vector<Mesh::Dimension>> kMeshes = {
    {{"dp", 2}, {"pp", 4}}, {{"pp", 2}, {"dp", 3}}, {{"dp", 1}, {"pp", 4}}, {{"dp", 3}, {"pp", 2}}};

int size_of(const std::vector<Mesh::Dimension>& dimensions) {
  return dimensions[0].size * dimensions[1].size;
}

class ShardedStages : public ::testing::Test {
 protected:
  TemporaryDirectory folder_;
  std::filesystem::path file_ = folder_.path() / "checkpoint";
  std::filesystem::path again_ = folder_.path() / "again";
};

TEST_F(ShardedStages, TrainWhatOneProcessTrains) {
  Whole whole;
  std::vector<double> norms;
  for (int step = 0; step < 8; ++step) norms.push_back(whole.run());
  const auto expected = copies_of(whole.layers->named_parameters());
  for (const auto& dimensions : kMeshes) {
    SCOPED_TRACE(to_text(dimensions));
    for (const int stage : {1, 2}) {
      run_ranks({.size = size_of(dimensions)}, [&](World& world) {
        Piped piped(world, dimensions, stage);
        for (const double norm : norms) EXPECT_NEAR(piped.run(), norm, 1e-10);
        expect_close(copies_of(piped.pipe.parameters()), expected, 1e-10);
      });
    }
  }
}

TEST_F(ShardedStages, GoToOneProcessAndOtherMeshesEqualToTheBit) {
  Weights saved;
  std::mutex mutex;
  for (const auto& dimensions : kMeshes) {
    SCOPED_TRACE(to_text(dimensions));
    const bool is_first = saved.empty();
    Weights trained;
    run_ranks({.size = size_of(dimensions)}, [&](World& world) {
      Piped piped(world, dimensions, 2);
      piped.run();  // it had something else
      if (is_first) {
        for (int step = 0; step < 3; ++step) piped.run();
        const std::lock_guard lock(mutex);
        saved.merge(copies_of(piped.pipe.parameters()));
      } else {
        const auto metadata = load_checkpoint(file_, piped.pipe, piped.optimizer, world);
        EXPECT_EQ(metadata.numbers.at("step"), 3);
        expect_close(copies_of(piped.pipe.parameters()), saved, 0);
      }
      CheckpointMetadata metadata;
      metadata.numbers["step"] = 3;
      save_checkpoint(file_, piped.pipe, piped.optimizer, world, {.metadata = metadata});
      save_weights(again_, piped.pipe, piped.optimizer, world);
      world.barrier();
      piped.run();
      const std::lock_guard lock(mutex);
      trained.merge(copies_of(piped.pipe.parameters()));
    });
    Whole served;
    load_checkpoint(again_, *served.layers);
    expect_close(copies_of(served.layers->named_parameters()), saved, 0);
    Whole whole;
    load_checkpoint(file_, *whole.layers, whole.adam.get());
    expect_close(copies_of(whole.layers->named_parameters()), saved, 0);
    whole.run();
    expect_close(copies_of(whole.layers->named_parameters()), trained, 1e-10);
    save_checkpoint(again_, *whole.layers, whole.adam.get());
    run_ranks({.size = size_of(dimensions)}, [&](World& world) {
      Piped piped(world, dimensions, 1);
      load_checkpoint(again_, piped.pipe, piped.optimizer, world);
      expect_close(copies_of(piped.pipe.parameters()), copies_of(whole.layers->named_parameters()),
                   0);
    });
  }
}

TEST_F(ShardedStages, MistakesAreToldOnEveryRank) {
  run_ranks({.size = 4}, [&](World& world) {
    const Mesh mesh(world, {{"dp", 1}, {"pp", 4}});
    Pipeline pipe(Piped::stages_of(mesh["pp"]), mesh["pp"],
                  {.micro_batches = 2, .tied = {{"tokens.weight"}}});
    EXPECT_EQ(pipe.tied_parameters(), mesh["pp"].rank() % 3 == 0
                                          ? std::set<std::string>{"tokens.weight"}
                                          : std::set<std::string>());
    ShardedOptimizer optimizer(pipe.parameters(), make_adam_of, {.backward_passes_per_step = 2},
                               mesh["dp"]);
    const auto texts = texts_of_seven();
    pipe.step(texts, texts, cross_entropy);
    EXPECT_EQ(error_of<InputError>([&] { pipe.synchronize_tied(optimizer); }),
              "Pipeline: tied parameter 'tokens.weight' has no bucket of its own in the sharded "
              "optimizer: expected ShardedOptimizerOptions::own_buckets = "
              "pipeline.tied_parameters()");
    EXPECT_EQ(error_of<Error>([&] { pipe.clip_grad_norm(1, optimizer); }),
              "Pipeline: clip_grad_norm() comes after synchronize_tied()");
  });
}

}  // namespace
}  // namespace sullae::testing

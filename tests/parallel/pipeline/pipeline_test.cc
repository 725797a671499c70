// What a pipeline trains is what one process trains.
#include "sullae/parallel/pipeline.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "parallel/pipeline/small_layers.h"
#include "parallel/pipeline/tied_layers.h"
#include "parallel/pipeline/wide_stage.h"
#include "sullae/parallel/mesh.h"
#include "sullae/parallel/tensor_parallel.h"
#include "sullae/torch.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using namespace small_layers;

using Weights = std::map<std::string, torch::Tensor>;

Weights weights_of(const torch::nn::Module& module) {
  Weights weights;
  for (const auto& item : module.named_parameters())
    weights[item.key()] = item.value().detach().clone();
  return weights;
}

void expect_close(const Weights& weights, const Weights& expected, double tolerance = 1e-10) {
  ASSERT_EQ(weights.size(), expected.size());
  for (const auto& [name, value] : expected)
    EXPECT_LE((weights.at(name) - value).abs().max().item<double>(), tolerance) << name;
}

constexpr int kSteps = 100;

struct Course {
  std::vector<double> losses;
  Weights weights;
};

Course train_alone(torch::nn::Sequential layers, double clip) {
  Course course;
  torch::optim::Adam adam(layers->parameters(), torch::optim::AdamOptions(0.01));
  for (int step = 0; step < kSteps; ++step) {
    adam.zero_grad();
    const auto loss = mean_square(layers->forward(inputs_of(step)), targets_of(step));
    loss.backward();
    if (clip > 0) torch::nn::utils::clip_grad_norm_(layers->parameters(), clip);
    adam.step();
    course.losses.push_back(loss.item<double>());
  }
  course.weights = weights_of(*layers);
  return course;
}

// On rank 0, what train_alone() gives.
Course train_piped(std::vector<PipelineStage> stages, const World& world,
                   const PipelineOptions& options, double clip, const World& data) {
  Course course;
  Pipeline pipe(std::move(stages), world, options);
  torch::optim::Adam adam(pipe.parameters().values(), torch::optim::AdamOptions(0.01));
  DistributedOptimizer optimizer(adam, pipe.parameters(),
                                 {.backward_passes_per_step = options.micro_batches}, data);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const std::int64_t own = kBatch / data.size();
    const auto part = [&](const torch::Tensor& all) {
      return all.narrow(0, data.rank() * own, own);
    };
    double loss = pipe.step(part(inputs_of(step)), part(targets_of(step)), mean_square);
    optimizer.synchronize();
    if (clip > 0) pipe.clip_grad_norm(clip);
    optimizer.step();
    data.allreduce(&loss, &loss, 1, DataType::float64, ReduceOp::average);
    course.losses.push_back(loss);
  }
  if (const auto whole = pipe.gather()) course.weights = weights_of(*whole);
  return course;
}

void expect_same(const Course& course, const Course& expected, const World& world) {
  for (std::size_t step = 0; step < expected.losses.size(); ++step)
    ASSERT_NEAR(course.losses[step], expected.losses[step], 1e-10);
  if (world.rank() == 0) expect_close(course.weights, expected.weights);
}

struct Way {
  int ranks;
  PipelineOptions options;
  int stages_per_rank = 1;
  double clip = 0;
};

TEST(Pipeline, TrainsWhatOneProcessTrains) {
  const std::vector<Way> ways = {
      {.ranks = 1, .options = {.schedule = "1f1b", .micro_batches = 1}},
      {.ranks = 1,
       .options = {.schedule = "interleaved", .micro_batches = 3},
       .stages_per_rank = 3},
      {.ranks = 2, .options = {.schedule = "gpipe", .micro_batches = 5}},
      {.ranks = 2, .options = {.schedule = "1f1b", .micro_batches = 8}, .clip = 0.1},
      {.ranks = 3, .options = {.schedule = "1f1b", .micro_batches = 2}},
      {.ranks = 2,
       .options = {.schedule = "interleaved", .micro_batches = 4},
       .stages_per_rank = 3},
      {.ranks = 4,
       .options = {.schedule = "interleaved", .micro_batches = 7},
       .stages_per_rank = 2},
  };
  for (const Way& way : ways) {
    SCOPED_TRACE(::testing::Message() << way.ranks << " ranks, " << way.options.schedule << ", "
                                      << way.options.micro_batches << " micro-batches");
    const Course alone = train_alone(layers_of(9), way.clip);
    run_ranks({.size = way.ranks}, [&](World& world) {
      auto stages =
          divide(layers_of(9), inputs_of(0), world, {.stages_per_rank = way.stages_per_rank});
      expect_same(train_piped(std::move(stages), world, way.options, way.clip, World::create({})),
                  alone, world);
    });
  }
}

TEST(Pipeline, TrainsTheSameOverEveryTransport) {
  const Course alone = train_alone(layers_of(6), 0);
  for (const auto& setting : every_setting()) {
    if (setting.ranks.size > 4) continue;
    SCOPED_TRACE(setting.name);
    run_ranks(setting.ranks, [&](World& world) {
      auto stages = divide(layers_of(6), inputs_of(0), world);
      expect_same(train_piped(std::move(stages), world, {.micro_batches = 5}, 0, World::create({})),
                  alone, world);
    });
  }
}

TEST(Pipeline, GoesWithDataParallelism) {
  const Course alone = train_alone(layers_of(6), 0.2);
  run_ranks({.size = 4}, [&](World& world) {
    const Mesh mesh(world, {{"dp", 2}, {"pp", 2}});
    auto stages = divide(layers_of(6), inputs_of(0), mesh);
    expect_same(train_piped(std::move(stages), mesh["pp"], {.micro_batches = 4}, 0.2, mesh["dp"]),
                alone, mesh["pp"]);
  });
}

TEST(Pipeline, GoesWithTensorAndDataParallelism) {
  const auto train = [](const World& data, const World& pipes, const World& tensor) {
    std::vector<PipelineStage> stages;
    for (int stage = pipes.rank(); stage < 2; stage += pipes.size())
      stages.emplace_back(Wide(tensor, stage), "stage" + std::to_string(stage));
    Pipeline pipe(std::move(stages), pipes, {.schedule = "interleaved", .micro_batches = 3});
    torch::optim::SGD sgd(pipe.parameters().values(), 0.1);
    DistributedOptimizer optimizer(sgd, pipe.parameters(), {.backward_passes_per_step = 3}, data);
    std::vector<double> course;
    for (int step = 0; step < 10; ++step) {
      optimizer.zero_grad();
      const std::int64_t own = 12 / data.size();
      double loss = pipe.step(inputs_of(step).narrow(0, data.rank() * own, own),
                              targets_of(step).narrow(0, data.rank() * own, own), mean_square);
      optimizer.synchronize();
      course.push_back(pipe.clip_grad_norm(0.5, tensor));
      optimizer.step();
      data.allreduce(&loss, &loss, 1, DataType::float64, ReduceOp::average);
      course.push_back(loss);
    }
    return course;
  };
  const auto alone = [] {
    return World::create({});
  };
  const std::vector<double> expected = train(alone(), alone(), alone());
  run_ranks({.size = 8}, [&](World& world) {
    const Mesh mesh(world, {{"dp", 2}, {"pp", 2}, {"tp", 2}});
    const auto course = train(mesh["dp"], mesh["pp"], mesh["tp"]);
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(course[i], expected[i], 1e-10);
  });
}

TEST(Pipeline, AddsUpTheGradientsOfParametersThatAreOne) {
  const auto texts = texts_of_seven();
  auto body = middle();
  auto tokens = embedding();
  std::vector<torch::Tensor> all = {tokens->weight, body->weight, body->bias};
  torch::optim::Adam adam(all, torch::optim::AdamOptions(0.05));
  std::vector<double> norms;
  for (int step = 0; step < 10; ++step) {
    adam.zero_grad();
    const auto scores = torch::linear(body(tokens(texts)), tokens->weight);
    cross_entropy(scores, texts).backward();
    norms.push_back(torch::nn::utils::clip_grad_norm_(all, 0.3));
    adam.step();
  }
  for (const int size : {1, 2, 3}) {
    run_ranks({.size = size}, [&](World& world) {
      const std::vector<PipelineStage> three = {
          {embedding(), "tokens"}, {middle(), "body"}, {Head(), "head"}};
      std::vector<PipelineStage> stages;
      if (size == 2) {  // the embedding and the body in one
        torch::nn::Sequential first({{"tokens", embedding()}, {"body", middle()}});
        stages.push_back(world.rank() == 0 ? PipelineStage(first) : three[2]);
      } else {
        for (int stage = world.rank(); stage < 3; stage += size)
          stages.push_back(three[static_cast<std::size_t>(stage)]);
      }
      PipelineOptions options{.schedule = size == 1 ? "interleaved" : "1f1b",
                              .micro_batches = 3,
                              .tied = {{"tokens.weight", "head.weight"}}};
      Pipeline pipe(stages, world, options);
      torch::optim::Adam own(pipe.parameters().values(), torch::optim::AdamOptions(0.05));
      for (int step = 0; step < 10; ++step) {
        own.zero_grad();
        pipe.step(texts, texts, cross_entropy);
        EXPECT_EQ(error_of([&] { pipe.step(texts, texts, cross_entropy); }),
                  "Pipeline: step() after a step() whose tied gradients were not added up: call "
                  "synchronize_tied() before the optimizer's step()");
        pipe.synchronize_tied();
        pipe.synchronize_tied();
        EXPECT_NEAR(pipe.clip_grad_norm(0.3), norms[static_cast<std::size_t>(step)], 1e-10);
        own.step();
      }
      const auto whole = pipe.gather();
      if (world.rank() != 0) return;
      const auto weights = weights_of(*whole);
      EXPECT_TRUE(torch::allclose(weights.at("tokens.weight"), tokens->weight, 0, 1e-10));
      EXPECT_TRUE(torch::equal(weights.at("tokens.weight"), weights.at("head.weight")));
      EXPECT_TRUE(torch::allclose(weights.at("body.weight"), body->weight, 0, 1e-10));
    });
  }
}

TEST(Pipeline, EvaluatesAndKeepsFewMicroBatchesAlive) {
  auto layers = layers_of(6);
  const auto expected = layers->forward(inputs_of(0));
  run_ranks({.size = 3}, [&](World& world) {
    Pipeline pipe(divide(layers_of(6), inputs_of(0), world), world,
                  {.schedule = "1f1b", .micro_batches = 12});
    const auto output = pipe.forward(inputs_of(0));
    EXPECT_EQ(output.defined(), world.rank() == 2);
    if (output.defined()) {
      EXPECT_TRUE(torch::allclose(output, expected, 1e-12, 1e-12));
      EXPECT_FALSE(output.requires_grad());
    }
    pipe.step(inputs_of(0), targets_of(0), mean_square);
    EXPECT_EQ(pipe.most_alive(), 3 - world.rank());
    pipe.train(false);
    const auto evaluated = pipe.forward(inputs_of(0));
    EXPECT_FALSE(evaluated.defined() && evaluated.requires_grad());
  });
}

// Shapes may change from one step to the next, and between micro-batches; what comes before a
// frozen stage gets nothing.
TEST(Pipeline, TakesAnyShapesAndFrozenStages) {
  run_ranks({.size = 2}, [](World& world) {
    auto stages = divide(layers_of(4), inputs_of(0), world);
    if (world.rank() == 0) {
      for (auto& parameter : stages[0].module->parameters()) parameter.requires_grad_(false);
    }
    Pipeline pipe(stages, world, {.micro_batches = 2});
    for (const std::int64_t samples : {2, 3, 17, 4}) {
      const auto x = inputs_of(1).narrow(0, 0, samples);
      pipe.step(x, x, mean_square);
    }
    // Fewer, and more, than usual.
    for (const int parts : {1, 5}) {
      const auto x = inputs_of(1).narrow(0, 0, parts);
      pipe.step(x, x, mean_square, 1, parts);
      const auto output = pipe.forward(x, parts);
      EXPECT_TRUE(world.rank() == 0 || output.size(0) == parts);
    }
    for (const auto& item : pipe.parameters()) {
      EXPECT_EQ(item.value().grad().defined(), world.rank() == 1) << item.key();
    }
  });
}

TEST(Pipeline, CheckpointsAreThoseOfOneProcess) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "model.pt";
  auto trained = layers_of(6);
  {
    const torch::NoGradGuard guard;
    for (auto& parameter : trained->parameters()) parameter.mul_(2);
  }
  run_ranks({.size = 3}, [&](World& world) {
    Pipeline pipe(divide(trained, inputs_of(0), world), world);
    const auto whole = pipe.gather();
    if (world.rank() == 0) save_checkpoint(file, *whole);
  });
  auto alone = layers_of(6);
  load_checkpoint(file, *alone);
  expect_close(weights_of(*alone), weights_of(*trained), 0);
  run_ranks({.size = 2}, [&](World& world) {
    Pipeline pipe(divide(layers_of(6), inputs_of(0), world), world);
    pipe.load(*alone);
    const auto whole = pipe.gather();
    if (world.rank() == 0) expect_close(weights_of(*whole), weights_of(*trained), 0);
    torch::nn::Sequential other(torch::nn::Linear(2, 2));
    const auto error = error_of([&] { pipe.load(*other); });
    EXPECT_TRUE(contains(error, "Pipeline: ")) << error;
  });
}

// Layers that work in place, at the beginning of a stage, too.
TEST(Pipeline, TakesLayersThatWorkInPlace) {
  const auto layers = [] {
    torch::nn::Sequential made(torch::nn::Linear(kSize, kSize),
                               torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)),
                               torch::nn::Linear(kSize, kSize));
    made->to(torch::kFloat64);
    set_values(*made);
    return made;
  };
  const Course alone = train_alone(layers(), 0);
  run_ranks({.size = 3}, [&](World& world) {
    expect_same(train_piped(divide(layers(), inputs_of(0), world), world, {.micro_batches = 4}, 0,
                            World::create({})),
                alone, world);
  });
}

TEST(Pipeline, IsInTheTimeline) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "timeline.json";
  run_ranks({.size = 2}, [&](World& world) {
    Pipeline pipe(divide(layers_of(4), inputs_of(0), world), world, {.micro_batches = 3});
    world.start_timeline(file);
    pipe.step(inputs_of(0), targets_of(0), mean_square);
    world.stop_timeline();
  });
  std::ifstream stream(file);
  const auto timeline = nlohmann::json::parse(stream);
  std::multiset<std::string> names;
  for (const auto& event : timeline.at("traceEvents")) {
    if (event.at("name") == "PIPELINE") names.insert(event.at("args").at("name"));
  }
  EXPECT_EQ(names.size(), 12U);
  EXPECT_EQ(names.count("stage 1, micro-batch 2, backward"), 1U);
}

}  // namespace
}  // namespace sullae::testing

// What a pipeline says of mistakes, of stages that fail, and of ranks that leave.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

#include "parallel/pipeline/small_layers.h"
#include "sullae/parallel/pipeline.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace sullae::testing {
namespace {

using namespace small_layers;

// What one stage throws, all ranks throw, and go on.
TEST(Pipeline, TellsAllRanksWhoFailed) {
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    for (const int failing : {0, 1, 2}) {
      run_ranks({.size = 3}, [&](World& world) {
        auto stages = divide(layers_of(6), inputs_of(0), world);
        int calls = 0;
        const auto module = stages[0].module;
        const auto forward = stages[0].forward;
        stages[0] = PipelineStage(module, [&, forward](const torch::Tensor& x) {
          if (world.rank() == failing && ++calls == 3)
            return torch::matmul(x, torch::ones({5, 5}, torch::kFloat64));
          return forward(x);
        });
        Pipeline pipe(stages, world, {.schedule = schedule, .micro_batches = 4});
        const auto error = error_of([&] { pipe.step(inputs_of(0), targets_of(0), mean_square); });
        EXPECT_TRUE(
            contains(error, "stage " + std::to_string(failing) + ", micro-batch 2, forward: "))
            << error;
        EXPECT_GT(pipe.step(inputs_of(0), targets_of(0), mean_square), 0);
      });
    }
  }
}

TEST(Pipeline, SaysWhatIsWrong) {
  run_ranks({.size = 2}, [](World& world) {
    const auto stages = divide(layers_of(4), inputs_of(0), world);
    const auto made = [&](const PipelineOptions& options) {
      return error_of([&] { Pipeline(stages, world, options); });
    };
    EXPECT_EQ(made({.schedule = "zb"}),
              "pipeline schedule 'zb': expected gpipe, 1f1b or interleaved");
    EXPECT_EQ(made({.micro_batches = 0}), "Pipeline: 0 micro-batches: expected 1 to 131072");
    EXPECT_EQ(made({.tied = {{"0.weight", "9.weight"}}}),
              "Pipeline: tied parameter '9.weight': no stage has it");
    EXPECT_EQ(made({.tied = {{"0.weight"}}}),
              "Pipeline: tied parameters (0.weight): expected two or more");
    EXPECT_EQ(error_of([&] { Pipeline({}, world); }),
              "Pipeline: no stages: expected one a rank, or more");
    EXPECT_EQ(error_of([&] {
                Pipeline({stages[0], stages[0]}, world);
              }),
              "Pipeline: 2 stages a rank with schedule '1f1b': expected one, or 'interleaved'");
    EXPECT_TRUE(contains(error_of([&] { Pipeline({torch::nn::Linear(2, 2)}, world); }),
                         "Pipeline: rank 0 and rank 1 each have a parameter 'bias'"));
    EXPECT_TRUE(contains(error_of([&] {
                           Pipeline({torch::nn::Linear(2, 2), torch::nn::Linear(2, 2)}, world,
                                    {.schedule = "interleaved"});
                         }),
                         "Pipeline: rank 0 has two parameters 'weight'"));
    EXPECT_EQ(error_of([&] {
                Pipeline({torch::nn::Linear(2 + world.rank(), 2)}, world,
                         {.tied = {{"weight"}, {"bias"}}});
              }),
              "Pipeline: tied parameters 'weight' and 'weight' differ in type or shape");
    Pipeline pipe(stages, world, {.micro_batches = 4});
    const auto few = inputs_of(0).narrow(0, 0, 3);
    EXPECT_TRUE(
        contains(error_of([&] { pipe.step(few, few, mean_square); }), "for 4 micro-batches"));
    EXPECT_TRUE(contains(error_of([&] { pipe.step({}, {}, mean_square); }), "there are no "));
    EXPECT_TRUE(contains(error_of([&] { pipe.step(inputs_of(0), targets_of(0), nullptr); }),
                         "Pipeline: step() without a loss"));
    EXPECT_EQ(made({.tied = {{"0.weight", "0.bias"}}}),
              "Pipeline: tied parameters '0.weight' and '0.bias' differ in type or shape");
    const auto error = error_of([&] {
      pipe.step(inputs_of(0), targets_of(0),
                [](const torch::Tensor& output, const torch::Tensor&) { return output; });
    });
    EXPECT_TRUE(contains(error, "expected a number")) << error;
    EXPECT_EQ(error_of<InputError>(
                  [&] { pipe.step(inputs_of(0), targets_of(0), mean_square, 1, 1 << 18); }),
              "Pipeline: 262144 micro-batches: expected 1 to 131072");
    const auto thrown = error_of([&] {
      pipe.step(inputs_of(0), targets_of(0),
                [](const torch::Tensor&, const torch::Tensor&) -> torch::Tensor { throw 3; });
    });
    EXPECT_TRUE(contains(thrown, "forward: threw what is no std::exception")) << thrown;
    const auto inputs = inputs_of(0).size(0);
    const auto fewer = targets_of(0).narrow(0, 0, inputs - 1);
    const auto mean = [](const torch::Tensor& output, const torch::Tensor&) {
      return output.mean();
    };
    EXPECT_EQ(error_of<InputError>([&] { pipe.step(inputs_of(0), fewer, mean); }),
              fmt::format("Pipeline: {} inputs on the first rank, and {} targets on the last: "
                          "expected as many",
                          inputs, inputs - 1));
    EXPECT_GT(pipe.step(inputs_of(0), targets_of(0), mean_square), 0) << "it goes on";
    // Several targets of each input.
    const auto both = [](const torch::Tensor& output, const torch::Tensor& target) {
      return output.square().mean() + target.square().mean();
    };
    EXPECT_GT(pipe.step(inputs_of(0), torch::zeros({2 * inputs}), both, 1, 2), 0);
    EXPECT_TRUE(contains(
        error_of<InputError>([&] { pipe.step(inputs_of(0), torch::zeros({2 * inputs}), both); }),
        "expected as many"));
  });
  const auto errors = run_ranks_catching({.size = 2}, [](World& world) {
    Pipeline pipe(divide(layers_of(4), inputs_of(0), world), world,
                  {.micro_batches = 2 + world.rank()});
  });
  for (const auto& error : errors)
    EXPECT_EQ(error,
              "ranks disagree about the pipeline: it is 1f1b with 2 micro-batches and 1 stages a "
              "rank on rank 0, and 1f1b with 3 micro-batches and 1 stages a rank on rank 1");
}

TEST(Pipeline, NamesAnotherNumberOfMicroBatches) {
  const auto errors = run_ranks_catching({.size = 2}, [](World& world) {
    Pipeline pipe(divide(layers_of(4), inputs_of(0), world), world);
    pipe.step(inputs_of(0), targets_of(0), mean_square, 1, 4 - 2 * world.rank());
  });
  for (const auto& error : errors)
    EXPECT_TRUE(contains(error,
                         "Pipeline: 2 micro-batches on rank 1, and 4 on rank 0: expected "
                         "the same on all ranks") ||
                contains(error, "Pipeline: 4 micro-batches on rank 0, and 2 on rank 1"))
        << error;
}

// A rank that dies is named by those that wait for it.
TEST(Pipeline, NamesARankThatLeaves) {
  const auto errors = run_ranks_catching({.size = 3}, [](World& world) {
    auto stages = divide(layers_of(6), inputs_of(0), world);
    const auto forward = stages[0].forward;
    Pipeline pipe({PipelineStage(stages[0].module,
                                 [&](const torch::Tensor& x) {
                                   if (world.rank() == 1) {
                                     world.leave();
                                     throw PeerError(1, "leaves");
                                   }
                                   return forward(x);
                                 })},
                  world, {.micro_batches = 2});
    pipe.step(inputs_of(0), targets_of(0), mean_square);
  });
  EXPECT_EQ(errors[1], "leaves");
  for (const int rank : {0, 2})
    EXPECT_TRUE(contains(errors[static_cast<std::size_t>(rank)], "rank 1"))
        << errors[static_cast<std::size_t>(rank)];
}

}  // namespace
}  // namespace sullae::testing

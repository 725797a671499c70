// `sullae train --mesh pp=N`: models of whose layers ranks have some each are those that one
// process trains.
#include <fmt/format.h>
#include <torch/torch.h>

#include "support/errors.h"
#include "support/ranks.h"
#include "train/models/gpt.h"
#include "train/transformers.h"

namespace sullae::testing {
namespace {

using namespace train;

using TrainedStages = Transformers;

TEST_F(TrainedStages, AreWhatOneProcessTrains) {
  for (const char* const recipe : {"gpt", "transformer"}) {
    const auto alone = trained(1, recipe, {"--epochs", "1", "--layers", "3", "--clip-norm", "0.5"});
    struct Case {
      int ranks;
      const char* mesh;
      const char* parts;
      const char* shard = "none";
    };
    for (const auto& [ranks, mesh, parts, shard] : {Case{3, "pp=3", "4"},
                                                    {4, "dp=2,pp=2", "3", "optimizer"},
                                                    {4, "pp=2,tp=2", "1"},
                                                    {8, "dp=2,pp=2,tp=2", "2", "gradients"}}) {
      if (ranks == 8 && std::string(recipe) != "gpt") continue;  // whose vectors are on two ranks
      const auto report =
          trained(ranks, recipe,
                  {"--epochs", "1", "--layers", "3", "--mesh", mesh, "--accumulation-steps", parts,
                   "--shard", shard, "--clip-norm", "0.5"});
      expect_near(report, alone, fmt::format("{} with {} {}", recipe, mesh, shard));
      EXPECT_EQ(report.at("parameters"), alone.at("parameters"));
      EXPECT_EQ(report.at("world_size"), ranks);
      EXPECT_EQ(contains(said_, "its ranks wait for each other"), std::string(parts) == "1")
          << said_;
    }
  }
}

// Of which others have those between: with "interleaved".
TEST_F(TrainedStages, MayBeSeveralARank) {
  const std::vector<std::string> common = {"--epochs",    "1",   "--layers",         "5",
                                           "--clip-norm", "0.5", "--checkpoint-dir", checkpoints_,
                                           "--resume"};
  const auto run_on = [&](int ranks, const char* recipe, std::vector<std::string> options) {
    options.insert(options.end(), common.begin(), common.end());
    return trained(ranks, recipe, options);
  };
  const std::vector<std::string> interleaved = {
      "--mesh", "pp=2", "--stages-per-rank", "2", "--accumulation-steps", "4"};
  auto sharded = interleaved;
  sharded.insert(sharded.end(), {"--shard", "gradients"});
  for (const char* const recipe : {"gpt", "transformer"}) {
    std::filesystem::remove_all(checkpoints_);
    const auto alone = run_on(1, recipe, {});
    for (const auto& [ranks, options] : {std::pair{2, interleaved}, {4, sharded}}) {
      std::filesystem::remove_all(checkpoints_);
      const auto report = run_on(ranks, recipe, options);
      expect_near(report, alone, recipe);
      EXPECT_EQ(report.at("parameters"), alone.at("parameters"));
    }
    // Interrupted, and gone on with by one process, and the other way round.
    for (const bool begins_alone : {false, true}) {
      std::filesystem::remove_all(checkpoints_);
      auto first = begins_alone ? std::vector<std::string>() : interleaved;
      first.insert(first.end(), {"--max-steps", "10"});
      run_on(begins_alone ? 1 : 2, recipe, first);
      expect_near(run_on(begins_alone ? 2 : 1, recipe,
                         begins_alone ? interleaved : std::vector<std::string>()),
                  alone, recipe);
      EXPECT_TRUE(contains(said_, "resuming after step 10 of epoch 1")) << said_;
    }
  }
  EXPECT_TRUE(contains(refused(2, "gpt", {"--mesh", "pp=2", "--stages-per-rank", "2"}),
                       "--layers 2: 2 ranks have them one behind the other, in 2 stages each "
                       "(--stages-per-rank): expected at least 4"));
  EXPECT_TRUE(contains(refused(1, "gpt", {"--stages-per-rank", "2"}),
                       "--stages-per-rank 2: needs --mesh with pp of 2 or more"));
}

TEST_F(TrainedStages, TrainIn16Bits) {
  expect_to_train_in_16_bits({"--mesh", "pp=2", "--accumulation-steps", "4"});
}

TEST_F(TrainedStages, CheckpointsGoFromAnyRanksToAny) {
  const Job divided = {4, "--mesh", "dp=2,pp=2"};
  expect_checkpoints_to_go({{divided, {1, "--shard", "none"}},
                            {{2, "--shard", "gradients"}, divided},
                            {{4, "--mesh", "pp=2,tp=2"}, {4, "--shard=optimizer", "--mesh=pp=2"}}});
}

TEST_F(TrainedStages, GoOnEqualToTheBit) {
  expect_to_go_on_equal_to_the_bit(4, {"--mesh", "pp=2", "--accumulation-steps", "3"});
}

TEST_F(TrainedStages, AreServedAndTrainedFurther) {
  expect_to_be_served_and_trained_further(4, {"--mesh", "pp=2", "--accumulation-steps", "4"},
                                          {{2, {"--mesh", "pp=2"}}, {4, {"--mesh", "pp=2,tp=2"}}});
}

TEST_F(TrainedStages, TakeMemoryOfParts) { expect_memory_of_parts("--mesh", "dp=4", "pp=4"); }

TEST_F(TrainedStages, MistakesAreTold) {
  const auto result = train(2, {"--mesh", "pp=2"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(contains(result.standard_error,
                       "--mesh pp=2: the model has no stages (sullae::train::HasStages)"))
      << result.standard_error;
}

// The vectors that texts are scored by weigh as much as some blocks.
TEST(Stages, HaveEvenWork) {
  run_ranks({.size = 2}, [](World& world) {
    const auto blocks_of = [&](std::int64_t pieces) {
      const GptImpl model({.pieces = pieces,
                           .stack = {.size = 16, .heads = 2, .layers = 6},
                           .division = {.stages = world}});
      std::vector<std::string> names;
      for (const auto& item : model.named_children()) {
        if (item.key() != "blocks") continue;
        for (const auto& block : item.value()->named_children()) names.push_back(block.key());
      }
      return names;
    };
    using Names = std::vector<std::string>;
    EXPECT_EQ(blocks_of(50), world.rank() == 0 ? Names({"0", "1", "2"}) : Names({"3", "4", "5"}));
    EXPECT_EQ(blocks_of(1000), world.rank() == 0 ? Names({"0", "1", "2", "3"}) : Names({"4", "5"}));
  });
}

}  // namespace
}  // namespace sullae::testing

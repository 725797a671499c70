// `sullae train --mesh pp=N`: models of whose layers ranks have some each are those that one process trains.
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

// `sullae train --shard parameters`: models that are whole on no rank are those that one process
// trains.
#include "train/transformers.h"

namespace sullae::testing {
namespace {

using TrainedUnits = Transformers;

TEST_F(TrainedUnits, AreWhatOneProcessTrains) {
  for (const char* const recipe : {"gpt", "transformer"}) {
    const auto alone = trained(1, recipe, {"--epochs", "2"});
    for (const auto& [ranks, parts] : {std::pair{1, "2"}, {2, "1"}, {3, "2"}}) {
      const auto report = trained(
          ranks, recipe, {"--epochs", "2", "--shard", "parameters", "--accumulation-steps", parts});
      expect_near(report, alone, std::string(recipe) + " on " + std::to_string(ranks));
      EXPECT_GT(report.at("test_accuracy").get<double>(), 0.9);
    }
    // Twice the whole model.
    const auto hybrid =
        trained(4, recipe, {"--epochs", "2", "--shard", "parameters", "--mesh", "dp=2,shard=2"});
    expect_near(hybrid, alone, std::string(recipe) + " on 2 x 2");
  }
}

// Steps of which a rank has no sample, or fewer parts, and tests of which it has fewer batches: it
// runs along.
TEST_F(TrainedUnits, RunAlsoWhereARankHasNothing) {
  std::ofstream(path("texts") / "train.tsv") << "text\tlabel\n";
  std::ofstream rows(path("texts") / "train.tsv", std::ios::app);
  for (int i = 0; i < 17; ++i) rows << (i % 2 == 1 ? "good" : "bad") << i << '\t' << i % 2 << '\n';
  rows.close();
  std::ofstream(path("texts") / "test.tsv") << "text\tlabel\ngood1\t1\n";
  const auto alone = trained(1, "transformer", {"--epochs", "3"});
  for (const auto& [ranks, parts] : {std::pair{2, "2"}, {3, "1"}, {3, "2"}}) {
    const auto report =
        trained(ranks, "transformer",
                {"--epochs", "3", "--shard", "parameters", "--accumulation-steps", parts});
    expect_near(report, alone, std::to_string(ranks) + " with " + parts);
  }
  // Without a test.
  std::ofstream(path("texts") / "test.tsv") << "text\tlabel\n";
  EXPECT_EQ(trained(2, "transformer", {"--epochs", "1", "--shard", "parameters"}).at("steps"), 3);
}

TEST_F(TrainedUnits, CheckpointsGoFromAnyRanksToAny) {
  const Job units = {3, "--shard", "parameters"};
  expect_checkpoints_to_go({{units, {1, "--shard", "none"}},
                            {{2, "--shard", "gradients"}, units},
                            {units, {2, "--shard", "parameters"}},
                            {{4, "--shard=parameters", "--mesh=shard=2"}, {3, "--shard", "none"}},
                            {units, {4, "--shard=parameters", "--mesh=dp=2,shard=2"}}});
}

TEST_F(TrainedUnits, GoOnEqualToTheBit) {
  expect_to_go_on_equal_to_the_bit(2, {"--shard", "parameters"});
}

TEST_F(TrainedUnits, TrainIn16Bits) { expect_to_train_in_16_bits({"--shard", "parameters"}); }

TEST_F(TrainedUnits, AreServedAndTrainedFurther) {
  const std::vector<std::string> units = {"--shard", "parameters"};
  expect_to_be_served_and_trained_further(3, units, {{1, units}, {2, units}, {3, units}});
}

TEST_F(TrainedUnits, TakeMemoryOfParts) { expect_memory_of_parts("--shard", "none", "parameters"); }

TEST_F(TrainedUnits, MistakesAreTold) {
  EXPECT_TRUE(contains(refused(2, "gpt", {"--shard", "parameters", "--precision", "float16"}),
                       "libtorch does not compute in float16 on the CPU"));
  EXPECT_TRUE(contains(refused(2, "gpt", {"--export", path("models"), "--export-name", "a/b"}),
                       "'a/b' cannot be the name of a model"));
  for (const char* const shard : {"none", "gradients"})
    EXPECT_TRUE(contains(refused(2, "gpt", {"--mesh", "shard=2", "--shard", shard}),
                         "--mesh shard=2: shard is of --shard parameters: expected that, or"));
  EXPECT_TRUE(contains(refused(4, "gpt", {"--mesh", "shard=2,pp=2", "--shard", "parameters"}),
                       "--mesh shard=2,pp=2: pp does not go with --shard parameters: expected "
                       "--shard gradients, or tp alone"));
  EXPECT_TRUE(contains(refused(3, "gpt", {"--mesh", "shard=2", "--shard", "parameters"}),
                       "--mesh shard=2: there are 3 ranks: expected a multiple of 2"));
  EXPECT_TRUE(contains(refused(2, "gpt", {"--shard", "parameters", "--no-overlap"}),
                       "--shard parameters: does not go with --no-overlap"));
  const auto result = train(2, {"--shard", "parameters"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(contains(result.standard_error, "--shard parameters: the model is not made of units"))
      << result.standard_error;
  EXPECT_TRUE(contains(run_program(words(2, {"--shard", "parameters"}, "text")).standard_error,
                       "--shard parameters: text has sparse gradients"));
  // Another model's checkpoint.
  trained(1, "gpt", {"--epochs", "1", "--max-steps", "2", "--checkpoint-dir", checkpoints_});
  EXPECT_TRUE(contains(
      refused(
          2, "gpt",
          {"--shard", "parameters", "--checkpoint-dir", checkpoints_, "--resume", "--layers", "3"}),
      "--resume: the checkpoint is of a model with --layers 2, and this one has 3"));
}

}  // namespace
}  // namespace sullae::testing

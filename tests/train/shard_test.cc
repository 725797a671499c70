// `sullae train --shard`: what is trained is the same, and checkpoints go from any ranks to any.
#include "support/errors.h"
#include "train/fixture.h"

namespace sullae::testing {
namespace {

class Shard : public Train {
 protected:
  nlohmann::json trained(int ranks, std::vector<std::string> options) {
    std::filesystem::remove(report_);
    options.insert(options.end(), {"--report", report_.string(), "--optimizer", "adam", "--lr",
                                   "0.002", "--weight-decay", "0.01"});
    const auto result = train(ranks, options);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    said_ = result.standard_output;
    return read_json(report_);
  }
  std::string said_;
  const HiddenGpus hidden_;
};

TEST_F(Shard, TrainsTheSame) {
  const std::vector<std::string> options = {"--epochs", "2", "--clip-norm", "1"};
  for (const int ranks : {1, 2, 3}) {
    const auto expected = trained(ranks, options);
    for (const char* const what : {"optimizer", "gradients"}) {
      auto sharded = options;
      sharded.insert(sharded.end(), {"--shard", what, "--accumulation-steps", "2"});
      const auto report = trained(ranks, sharded);
      EXPECT_EQ(report["steps"], expected["steps"]);
      EXPECT_NEAR(report["train_loss"].get<double>(), expected["train_loss"].get<double>(), 2e-3)
          << what << ranks;
    }
  }
}

TEST_F(Shard, CheckpointsGoFromAnyRanksToAny) {
  const auto expected = trained(2, {"--epochs", "3"});
  const auto part = [&](int ranks, const std::string& shard, const char* epochs) {
    return trained(
        ranks, {"--epochs", epochs, "--max-steps", epochs == std::string("3") ? "0" : "50",
                "--lr-schedule", "linear", "--checkpoint-dir", checkpoints_.string(), "--resume",
                "--shard", shard});
  };
  for (const auto& [ranks, shard] : {std::pair{1, "none"}, {2, "optimizer"}, {3, "gradients"}}) {
    std::filesystem::remove_all(checkpoints_);
    trained(4, {"--epochs", "3", "--max-steps", "50", "--checkpoint-dir", checkpoints_.string(),
                "--shard", "gradients"});
    const auto report = part(ranks, shard, "3");
    EXPECT_TRUE(contains(said_, "resuming after step 16 of epoch 2")) << said_;
    EXPECT_EQ(report["steps"], expected["steps"]);
    EXPECT_NEAR(report["test_loss"].get<double>(), expected["test_loss"].get<double>(), 5e-3)
        << ranks << shard;
  }
}

TEST_F(Shard, GoesOnEqualToTheBit) {
  for (const char* const precision : {"float32", "bfloat16"}) {
    const std::vector<std::string> options = {"--shard", "gradients",   "--epochs",
                                              "3",       "--precision", precision};
    const auto expected = trained(2, options);
    std::filesystem::remove_all(checkpoints_);
    auto interrupted = options;
    interrupted.insert(interrupted.end(), {"--checkpoint-dir", checkpoints_.string(), "--resume"});
    auto first = interrupted;
    first.insert(first.end(), {"--max-steps", "40"});
    trained(2, first);
    const auto report = trained(2, interrupted);
    EXPECT_EQ(report["train_loss"], expected["train_loss"]) << precision;
    EXPECT_EQ(report["test_loss"], expected["test_loss"]) << precision;
    EXPECT_GT(report["test_accuracy"].get<double>(), 0.9);
  }
}

// Of a run that goes on, whatever the checkpoint's said.
TEST_F(Shard, FlagsCountBesideACheckpoint) {
  const auto goes_on = [&](const std::string& shard) {
    std::filesystem::remove_all(checkpoints_);
    const std::vector<std::string> common = {"--checkpoint-dir", checkpoints_.string(), "--shard",
                                             shard, "--resume"};
    auto first = common;
    first.insert(first.end(), {"--epochs", "1"});
    trained(2, first);
    auto then = common;
    then.insert(then.end(), {"--epochs", "2", "--beta1", "0.5"});
    return trained(2, then).at("train_loss").get<double>();
  };
  const double expected = goes_on("none");
  for (const char* const shard : {"optimizer", "gradients"})
    EXPECT_NEAR(goes_on(shard), expected, 1e-4) << shard;
}

// As on hosts that have no folder in common: the same relative path is another one on each rank.
TEST_F(Shard, CheckpointsGoByWayOfRank0WhereOthersDoNotSeeIt) {
  const auto trained_apart = [&](std::vector<std::string> options) {
    options.insert(options.end(), {"--shard", "gradients", "--epochs", "2", "--optimizer", "adam",
                                   "--report", report_.string()});
    const auto result = run_program(apart(words(3, options)));
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    said_ = result.standard_output;
    return read_json(report_);
  };
  const auto expected = trained_apart({"--max-steps", "60"});
  trained_apart({"--checkpoint-dir", "checkpoints", "--max-steps", "40"});
  const auto report =
      trained_apart({"--checkpoint-dir", "checkpoints", "--resume", "--max-steps", "60"});
  EXPECT_TRUE(contains(said_, "resuming after step 6 of epoch 2")) << said_;
  EXPECT_NEAR(report["train_loss"].get<double>(), expected["train_loss"].get<double>(), 1e-9);
  EXPECT_EQ(report["test_loss"], expected["test_loss"]);
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "apart" / "1" / "checkpoints"));
}

TEST_F(Shard, SaysWhatDoesNotGoWithIt) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--shard", "all"}, "--shard all: expected one of none, optimizer, gradients, parameters"},
      {{"--shard", "optimizer", "--local-sgd", "4"}, "--shard optimizer: gradients are divided"},
      {{"--shard", "optimizer", "--compression", "float16"}, "does not go with --compression"},
      {{"--shard", "optimizer", "--precision", "bfloat16", "--allreduce-precision", "float32"},
       "does not go with --allreduce-precision float32"},
      {{"--shard", "optimizer", "--scale-up", "2"}, "does not go with --scale-up"},
      {{"--shard", "gradients", "--optimizer", "lamb"}, "needs norms of whole tensors"}};
  for (const auto& [options, message] : cases) {
    const auto result = train(2, options);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_TRUE(contains(result.standard_error, message)) << result.standard_error;
  }
}

TEST_F(Shard, IsNotOfSparseGradients) {
  const auto result = run_program(words(2, {"--shard", "gradients"}, "text"));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(contains(result.standard_error, "--shard gradients: text has sparse gradients"))
      << result.standard_error;
}

}  // namespace
}  // namespace sullae::testing

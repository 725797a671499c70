// `sullae run --ps … sullae train`.
#include "support/errors.h"
#include "train/fixture.h"

namespace sullae::testing {
namespace {

class TrainOnServers : public Train {
 protected:
  ProgramResult train_with(const std::vector<std::string>& flags, int ranks,
                           std::vector<std::string> options) {
    std::filesystem::remove(report_);
    options.insert(options.end(), {"--report", report_.string()});
    auto all = words(ranks, std::move(options));
    all.insert(all.begin() + 2, flags.begin(), flags.end());
    return run_program(all);
  }
  nlohmann::json trained(const std::vector<std::string>& flags, int ranks,
                         const std::vector<std::string>& options) {
    const auto result = train_with(flags, ranks, options);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    said_ = result.standard_output;
    return read_json(report_);
  }
  std::string said_;
};

TEST_F(TrainOnServers, WithoutStalenessLearnsWhatRanksLearn) {
  for (const char* optimizer : {"sgd", "adam", "adamw"}) {
    const std::vector<std::string> options = {"--epochs", "2", "--optimizer", optimizer};
    const auto expected = trained({}, 2, options);
    const auto report = trained({"--ps", "2"}, 2, options);
    EXPECT_EQ(report["steps"], expected["steps"]);
    EXPECT_NEAR(report["train_loss"].get<double>(), expected["train_loss"].get<double>(), 2e-3)
        << optimizer;
    EXPECT_NEAR(report["test_loss"].get<double>(), expected["test_loss"].get<double>(), 5e-3)
        << optimizer;
  }
}

TEST_F(TrainOnServers, SaysHowStaleGradientsWere) {
  const auto report = trained({"--ps", "2", "--staleness", "4"}, 3, {"--epochs", "3"});
  EXPECT_GT(report["test_accuracy"].get<double>(), 0.9);
  EXPECT_TRUE(contains(said_, "staleness: rank 0 was ")) << said_;
}

// With servers and without, on any ranks.
TEST_F(TrainOnServers, CheckpointsAreThoseOfRanks) {
  for (const char* optimizer : {"sgd", "adam"}) {
    const std::vector<std::string> options = {"--epochs", "3", "--optimizer", optimizer};
    const auto expected = trained({"--ps", "2"}, 2, options);
    const auto part = [&](const std::vector<std::string>& flags, int ranks, const char* steps) {
      auto all = options;
      all.insert(all.end(), {"--checkpoint-dir", checkpoints_.string(), "--checkpoint-steps", "16",
                             "--resume", "--max-steps", steps});
      return trained(flags, ranks, all);
    };
    std::filesystem::remove_all(checkpoints_);
    part({"--ps", "2"}, 2, "50");
    part({"--ps", "1"}, 1, "70");
    EXPECT_TRUE(contains(said_, "resuming after step 16 of epoch 2")) << said_;
    part({}, 2, "90");
    const auto report = part({"--ps", "3"}, 2, "0");
    EXPECT_TRUE(contains(said_, "resuming after step 22 of epoch 3")) << said_;
    EXPECT_EQ(report["steps"], expected["steps"]);
    EXPECT_NEAR(report["test_loss"].get<double>(), expected["test_loss"].get<double>(), 5e-3)
        << optimizer;
  }
}

TEST_F(TrainOnServers, SaysWhatDoesNotGoWithThem) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--shard", "optimizer"}, "they hold the optimizer: --shard divides it"},
      {{"--local-sgd", "4"}, "they hold the weights: --local-sgd averages"},
      {{"--compression", "float16"}, "do not go with --compression"},
      {{"--precision", "bfloat16"}, "hold float32: do not go with --precision"},
      {{"--clip-norm", "1"}, "do not go with --clip-norm"},
      {{"--weight-decay", "0.1"}, "decay all parameters or none: add --decay-all"},
      {{"--optimizer", "lamb"}, "have the optimizers sgd, adam and adamw"},
  };
  for (const auto& [options, message] : cases) {
    const auto result = train_with({"--ps", "1"}, 1, options);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_TRUE(contains(result.standard_error, "parameter servers (sullae run --ps): " + message))
        << result.standard_error;
  }
}

}  // namespace
}  // namespace sullae::testing

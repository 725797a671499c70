// `sullae train --shard parameters`: models that are whole on no rank are those that one process trains.
#include "support/errors.h"
#include "train/fixture.h"
#include "train/small_prose.h"
#include "train/small_texts.h"

namespace sullae::testing {
namespace {

class TrainedUnits : public Train {
 protected:
  TrainedUnits() {
    write_small_prose(path("prose"));
    write_small_texts(path("texts"));
  }
  std::filesystem::path path(const std::string& name) const { return directory_.path() / name; }

  ProgramResult run(int ranks, const std::string& recipe, std::vector<std::string> options) {
    std::vector<std::string> all = {
        "--batch-size", "8",   "--embedding-size", "16", "--heads", "2",    "--layers", "2",
        "--pieces",     "300", "--dropout",        "0",  "--lr",    "0.01", "--report", report_};
    const bool writes = recipe == "gpt";
    all.insert(all.end(), {"--data", path(writes ? "prose" : "texts")});
    all.insert(all.end(), {writes ? "--context" : "--max-words", "12"});
    all.insert(all.end(), options.begin(), options.end());
    return run_program(words(ranks, std::move(all), recipe));
  }
  nlohmann::json trained(int ranks, const std::string& recipe, std::vector<std::string> options) {
    std::filesystem::remove(report_);
    const auto result = run(ranks, recipe, std::move(options));
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    said_ = result.standard_output;
    return result.exit_code == 0 ? read_json(report_) : nlohmann::json{};
  }
  std::string refused(int ranks, const std::string& recipe, std::vector<std::string> options) {
    const auto result = run(ranks, recipe, std::move(options));
    EXPECT_NE(result.exit_code, 0);
    return result.standard_error;
  }
  static void expect_near(const nlohmann::json& one, const nlohmann::json& other,
                          const std::string& what) {
    EXPECT_EQ(one.at("steps"), other.at("steps")) << what;
    for (const char* const name : {"train_loss", "test_loss"})
      EXPECT_NEAR(one.at(name).get<double>(), other.at(name).get<double>(), 2e-3) << what << name;
  }

  std::string said_;
  const HiddenGpus hidden_;
};

TEST_F(TrainedUnits, AreWhatOneProcessTrains) {
  for (const char* const recipe : {"gpt", "transformer"}) {
    const auto alone = trained(1, recipe, {"--epochs", "2"});
    for (const auto& [ranks, parts] : {std::pair{1, "2"}, {2, "1"}, {3, "2"}}) {
      const auto report = trained(
          ranks, recipe, {"--epochs", "2", "--shard", "parameters", "--accumulation-steps", parts});
      expect_near(report, alone, std::string(recipe) + " on " + std::to_string(ranks));
      EXPECT_GT(report.at("test_accuracy").get<double>(), 0.9);
    }
  }
}

// Steps of which a rank has no sample, or fewer parts, and tests of which it has fewer batches: it runs along.
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
  const auto expected = trained(2, "gpt", {"--epochs", "1"});
  const auto part = [&](int ranks, const std::string& shard, const char* steps) {
    return trained(ranks, "gpt",
                   {"--epochs", "1", "--max-steps", steps, "--checkpoint-dir", checkpoints_,
                    "--resume", "--shard", shard});
  };
  using Job = std::pair<int, const char*>;
  const Job units = {3, "parameters"};
  for (const auto& [from, to] : {std::pair<Job, Job>{units, {1, "none"}},
                                 {{2, "gradients"}, units},
                                 {units, {2, "parameters"}}}) {
    std::filesystem::remove_all(checkpoints_);
    part(from.first, from.second, "20");
    expect_near(part(to.first, to.second, "0"), expected, to.second);
    EXPECT_TRUE(contains(said_, "resuming after step 20 of epoch 1")) << said_;
  }
}

TEST_F(TrainedUnits, GoOnEqualToTheBit) {
  const std::vector<std::string> options = {"--epochs",   "2",         "--shard",
                                            "parameters", "--dropout", "0.1"};
  const auto expected = trained(2, "gpt", options);
  auto interrupted = options;
  interrupted.insert(interrupted.end(), {"--checkpoint-dir", checkpoints_, "--resume"});
  auto first = interrupted;
  first.insert(first.end(), {"--max-steps", "20"});
  trained(2, "gpt", first);
  // A damaged one is passed over, and what ranks have meanwhile is not taken for it.
  const auto newest = checkpoints_ / "gpt-step-000000999.ckpt";
  std::filesystem::copy_file(checkpoints_ / "gpt-step-000000020.ckpt", newest);
  std::filesystem::resize_file(newest, std::filesystem::file_size(newest) / 2);
  const auto report = trained(2, "gpt", interrupted);
  EXPECT_TRUE(contains(said_, "resuming after step 20 of epoch 1")) << said_;
  EXPECT_EQ(report.at("train_loss"), expected.at("train_loss"));
  EXPECT_EQ(report.at("test_loss"), expected.at("test_loss"));
}

TEST_F(TrainedUnits, AreServedAndTrainedFurther) {
  const auto models = path("models");
  trained(3, "gpt", {"--epochs", "6", "--shard", "parameters", "--export", models});
  EXPECT_TRUE(contains(said_, "exported as ")) << said_;
  const auto written = run_program({sullae_program(), "generate", models / "gpt", "--prompt",
                                    "two three", "--temperature", "0", "--max-tokens", "4"});
  EXPECT_EQ(written.standard_output, "two three four five six seven\n") << written.standard_error;
  // Where a model has begun it has no more to learn.
  const auto loss = [&](const std::string& shard, int ranks) {
    return trained(ranks, "gpt",
                   {"--epochs", "1", "--max-steps", "1", "--lr", "1e-9", "--shard", shard,
                    "--init-from", models / "gpt" / "1" / "model.ckpt"})
        .at("test_loss")
        .get<double>();
  };
  const double whole = loss("none", 1);
  EXPECT_LT(whole, 0.3);
  for (const int ranks : {1, 2, 3}) EXPECT_NEAR(loss("parameters", ranks), whole, 1e-4) << ranks;
}

// What one rank has of 20 million parameters, with Adam, is 320 MB, and what four have is 80 MB each, from the first to the last step.
TEST_F(TrainedUnits, TakeMemoryOfParts) {
  const auto peak = [&](const std::string& shard, const char* size) {
    return trained(4, "gpt",
                   {"--epochs", "1", "--max-steps", "2", "--shard", shard, "--embedding-size", size,
                    "--layers", "8", "--checkpoint-dir", checkpoints_ / (shard + size), "--export",
                    path("models") / size})
        .at("peak_memory")
        .get<double>();
  };
  const double whole = peak("none", "448") - peak("none", "16");
  const double parts = peak("parameters", "448") - peak("parameters", "16");
  EXPECT_GT(whole, 300e6);
  EXPECT_LT(parts, whole / 2);
}

TEST_F(TrainedUnits, MistakesAreTold) {
  EXPECT_TRUE(contains(refused(2, "gpt", {"--shard", "parameters", "--precision", "bfloat16"}),
                       "--shard parameters: does not go with --precision yet"));
  EXPECT_TRUE(contains(refused(2, "gpt", {"--export", path("models"), "--export-name", "a/b"}),
                       "'a/b' cannot be the name of a model"));
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
  EXPECT_TRUE(contains(refused(2, "gpt",
                               {"--shard", "parameters", "--checkpoint-dir", checkpoints_,
                                "--resume", "--layers", "3"}),
                       "blocks.2"));
}

}  // namespace
}  // namespace sullae::testing

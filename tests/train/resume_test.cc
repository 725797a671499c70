// A run that was stopped, or killed, goes on as if it had not been: equal weights to the bit.
#include <torch/torch.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "sullae/torch/checkpoint.h"
#include "support/content_of.h"
#include "support/errors.h"
#include "train/checkpoints.h"
#include "train/fixture.h"
#include "train/models/small.h"

namespace sullae::testing {
namespace {

class Resume : public Train {
 protected:
  // A network with dropout, so that the generators' states count.
  ProgramResult train_mlp(int ranks, const std::filesystem::path& checkpoints, int epochs,
                          std::vector<std::string> options = {}) {
    return run_program(mlp_words(ranks, checkpoints, epochs, std::move(options)));
  }
  std::vector<std::string> mlp_words(int ranks, const std::filesystem::path& checkpoints,
                                     int epochs, std::vector<std::string> options = {}) {
    options.insert(options.end(), {"--epochs", std::to_string(epochs), "--lr-schedule", "constant",
                                   "--hidden-size", "32", "--checkpoint-dir", checkpoints,
                                   "--resume", "--keep-checkpoints", "1"});
    return words(ranks, options, "mlp");
  }
  std::filesystem::path straight_ = directory_.path() / "straight";
  std::filesystem::path stopped_ = directory_.path() / "stopped";
  const HiddenGpus hidden_;
};

struct Way {
  const char* name;
  int ranks;
  std::vector<std::string> options;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class ResumeEvery : public Resume, public ::testing::WithParamInterface<Way> {};

TEST_P(ResumeEvery, BetweenEpochsToTheBit) {
  const auto& [name, ranks, extra] = GetParam();
  ASSERT_EQ(train_mlp(ranks, straight_, 4, extra).exit_code, 0);
  ASSERT_EQ(train_mlp(ranks, stopped_, 2, extra).exit_code, 0);
  const auto resumed = train_mlp(ranks, stopped_, 4, extra);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.standard_error;
  EXPECT_TRUE(contains(resumed.standard_output, "resuming after epoch 2"))
      << resumed.standard_output;
  expect_same_bits(straight_, stopped_);
}

// Of one that ended in the middle of an epoch, one that went on, and one that found nothing to do.
TEST_F(Resume, ReportsOfAllRunsTogether) {
  const auto file = directory_.path() / "report.json";
  const auto report = [&](std::vector<std::string> options) {
    options.insert(options.end(), {"--report", file});
    const auto result = train_mlp(2, stopped_, 3, options);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return nlohmann::json::parse(content_of(file));
  };
  const auto stopped = report({"--max-steps", "40"});
  EXPECT_EQ(stopped.at("history").size(), 2U);
  const auto whole = report({});
  ASSERT_EQ(whole.at("history").size(), 3U);
  for (int epoch = 1; epoch <= 3; ++epoch)
    EXPECT_EQ(whole.at("history").at(static_cast<std::size_t>(epoch - 1)).at("epoch"), epoch);
  EXPECT_EQ(whole.at("history").at(0), stopped.at("history").at(0));
  EXPECT_GT(whole.at("seconds").get<double>(), stopped.at("seconds").get<double>());
  const auto again = report({});
  EXPECT_EQ(again.at("history"), whole.at("history"));
  EXPECT_EQ(again.at("epochs"), 3);
  EXPECT_EQ(again.at("steps"), whole.at("steps"));
  EXPECT_GT(again.at("samples_per_second").get<double>(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Way, ResumeEvery,
    ::testing::Values(
        Way{"alone", 1, {}}, Way{"three_ranks", 3, {}},
        Way{"nesterov", 2, {"--optimizer", "sgd", "--nesterov"}},
        Way{"local_sgd", 2, {"--local-sgd", "5", "--optimizer", "sgd", "--momentum", "0.9"}},
        Way{"local_sgd_by_epoch", 3, {"--local-sgd", "epoch"}},
        Way{"bfloat16", 2, {"--precision", "bfloat16", "--accumulation-steps", "2"}},
        // Replicas draw from one generator, in whatever order they come: no dropout here.
        Way{"scale_up", 2, {"--scale-up", "2", "--optimizer", "adamw", "--dropout", "0"}}),
    [](const auto& one) { return one.param.name; });

TEST_F(Resume, WithNothingLeftToTrainTests) {
  ASSERT_EQ(train_mlp(1, stopped_, 1).exit_code, 0);
  const auto ended = train_mlp(1, stopped_, 2, {"--max-steps", "20"});
  ASSERT_EQ(ended.exit_code, 0) << ended.standard_error;
  EXPECT_TRUE(contains(ended.standard_output, "nothing is left to train after step 34"))
      << ended.standard_output;
  EXPECT_FALSE(contains(ended.standard_output, "test accuracy 0.00 %")) << ended.standard_output;
}

TEST_F(Resume, OtherSettingsAreTold) {
  const auto resumed = [&](const char* steps) {
    return train_mlp(1, stopped_, 2, {"--lr", "0.01", "--max-steps", steps}).standard_output;
  };
  ASSERT_EQ(train_mlp(1, stopped_, 2, {"--max-steps", "10"}).exit_code, 0);
  const auto first = resumed("20");
  EXPECT_TRUE(contains(first, "other settings than before: lr 0.01 (was 0.001)\n")) << first;
  const auto second = resumed("30");
  EXPECT_TRUE(contains(second, "resuming after step 20")) << second;
  EXPECT_FALSE(contains(second, "other settings")) << second;
}

TEST_F(Resume, OfAnotherOptimizerIsRefused) {
  ASSERT_EQ(train_mlp(2, stopped_, 1).exit_code, 0);
  const auto other = train_mlp(2, stopped_, 2, {"--optimizer", "sgd"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_TRUE(contains(other.standard_error, "is of another kind of optimizer"))
      << other.standard_error;
  EXPECT_FALSE(contains(other.standard_error, "frame #")) << other.standard_error;
}

TEST_F(Resume, OfARunThatGoesOnIsRefused) {
  Program program(mlp_words(1, stopped_, 1000));
  ASSERT_TRUE(program.wait_for_output("epoch 2/1000"));
  const auto second =
      run_program(mlp_words(1, stopped_, 1000), {{"SULLAE_CHECKPOINT_LOCK_TIMEOUT", "0.1"}});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_TRUE(
      contains(second.standard_error, "--checkpoint-dir " + stopped_.string() + ": process "))
      << second.standard_error;
  EXPECT_TRUE(
      contains(second.standard_error, " writes checkpoints of mlp there: waiting for its end"));
  EXPECT_TRUE(contains(second.standard_error,
                       "and did not end within 0.1 s (SULLAE_CHECKPOINT_LOCK_TIMEOUT)"))
      << second.standard_error;
  program.signal(SIGTERM);
  program.wait();
}

TEST_F(Resume, AfterAKillInTheMiddleOfAnEpochToTheBit) {
  ASSERT_EQ(train_mlp(2, straight_, 6).exit_code, 0);
  {
    Program program(mlp_words(2, stopped_, 6, {"--checkpoint-steps", "5", "--log-interval", "1"}));
    ASSERT_TRUE(program.wait_for_output("epoch 3/6  step 8/"));
    program.signal(SIGKILL);
    program.wait();
  }
  EXPECT_TRUE(vanish(mnist_.string()));
  const auto resumed = train_mlp(2, stopped_, 6);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.standard_error;
  EXPECT_TRUE(contains(resumed.standard_output, "resuming after ")) << resumed.standard_output;
  expect_same_bits(straight_, stopped_);
  for (const auto& name : files_in(stopped_))
    EXPECT_TRUE(name.ends_with(".ckpt")) << name << " was left half-written";
}

TEST_F(Resume, WithAnotherNumberOfRanks) {
  ASSERT_EQ(train_mlp(2, stopped_, 2).exit_code, 0);
  const auto resumed = train_mlp(3, stopped_, 3, {"--report", report_});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.standard_error;
  EXPECT_TRUE(contains(resumed.standard_output, "resuming after epoch 2"));
  EXPECT_EQ(read_json(report_).at("steps"), 3 * 34);
  EXPECT_GT(read_json(report_).at("test_accuracy").get<double>(), 0.6);
}

// The scale of losses is of the run, and nothing of what it has learnt.
TEST_F(Resume, InAnotherPrecisionGradientsAreNotScaled) {
  const std::vector<std::string> common = {"--optimizer", "sgd",      "--lr",
                                           "0.05",        "--report", report_};
  auto first = common;
  first.insert(first.end(), {"--precision", "bfloat16", "--loss-scale", "4096"});
  ASSERT_EQ(train_mlp(1, stopped_, 1, first).exit_code, 0);
  const auto before = read_json(report_).at("train_loss").get<double>();
  const auto resumed = train_mlp(1, stopped_, 2, common);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.standard_error;
  EXPECT_TRUE(contains(resumed.standard_output, "resuming after epoch 1"));
  EXPECT_LT(read_json(report_).at("train_loss").get<double>(), before);
}

// Larger batches make fewer steps, and so lower numbers of the files that are new.
TEST_F(Resume, WithAnotherBatchSizeTheNewCheckpointsStay) {
  ASSERT_EQ(train_mlp(1, stopped_, 4).exit_code, 0);
  const auto larger = [&](int epochs) {
    auto all = mlp_words(1, stopped_, epochs);
    *(std::ranges::find(all, "--batch-size") + 1) = "200";
    return run_program(all);
  };
  const auto resumed = larger(5);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.standard_error;
  EXPECT_EQ(newest_checkpoint(stopped_).filename(), "mlp-step-000000146.ckpt");
  const auto again = larger(6);
  ASSERT_EQ(again.exit_code, 0) << again.standard_error;
  EXPECT_TRUE(contains(again.standard_output, "resuming after epoch 5")) << again.standard_output;
}

TEST_F(Resume, WhatBeginsAnewNeedsAFolderWithoutCheckpoints) {
  ASSERT_EQ(train_mlp(1, stopped_, 1).exit_code, 0);
  const auto before = files_in(stopped_);
  for (const int ranks : {1, 2}) {
    const auto anew = run_program(words(ranks, {"--checkpoint-dir", stopped_}, "mlp"));
    EXPECT_EQ(anew.exit_code, 1);
    EXPECT_TRUE(contains(anew.standard_error,
                         "has checkpoints of an earlier run (mlp-step-000000034.ckpt): expected "
                         "--resume, which goes on with it, or a folder without any"))
        << anew.standard_error;
  }
  // A job whose ranks may come and go would remove them, too.
  auto elastic = words(2, {"--checkpoint-dir", stopped_}, "mlp");
  elastic.insert(elastic.begin() + 2, {"--min-np", "1"});
  const auto anew = run_program(elastic);
  EXPECT_NE(anew.exit_code, 0);
  EXPECT_TRUE(contains(anew.standard_error, "has checkpoints of an earlier run"))
      << anew.standard_error;
  EXPECT_EQ(files_in(stopped_), before);
  const auto other = run_program(words(1, {"--epochs", "1", "--checkpoint-dir", stopped_}));
  EXPECT_EQ(other.exit_code, 0) << "another model's are none: " << other.standard_error;
}

TEST_F(Resume, WithinAnEpochOfOtherDataIsRefused) {
  ASSERT_EQ(train_mlp(1, stopped_, 2, {"--max-steps", "20"}).exit_code, 0);
  write_small_mnist(mnist_, 1000, 400);
  const auto other = train_mlp(1, stopped_, 2);
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_TRUE(contains(other.standard_error,
                       "--resume: the checkpoint is behind 1200 samples of an epoch of 2000, and "
                       "the training data have 1000"))
      << other.standard_error;
}

TEST_F(Resume, TheBestIsKept) {
  ASSERT_EQ(train_mlp(1, stopped_, 3).exit_code, 0);
  EXPECT_EQ(files_in(stopped_),
            (std::vector<std::string>{"mlp-best.ckpt", "mlp-step-000000102.ckpt"}));
  const auto best = [&] {
    train::MlpImpl model({.hidden = {32, 16}});
    const auto state = load_checkpoint(stopped_ / "mlp-best.ckpt", model).texts.at("run");
    return nlohmann::json::parse(state).at("test_accuracy").get<double>();
  }();
  train::MlpImpl model({.hidden = {32, 16}});
  const auto metadata = load_checkpoint(newest_checkpoint(stopped_), model);
  const auto newest_state = nlohmann::json::parse(metadata.texts.at("run"));
  EXPECT_EQ(newest_state.at("best_accuracy").get<double>(), best);
  EXPECT_TRUE(contains(metadata.texts.at("configuration"), "hidden-size = 32"))
      << metadata.texts.at("configuration");
}

}  // namespace
}  // namespace sullae::testing

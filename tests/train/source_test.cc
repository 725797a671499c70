// Training on the messages of a topic, and from where another training has ended.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "sullae/torch/checkpoint.h"
#include "support/errors.h"
#include "support/kafka_cluster.h"
#include "support/program.h"
#include "support/temporary_directory.h"
#include "support/variable.h"
#include "train/checkpoints.h"
#include "train/description.h"
#include "train/task.h"

namespace sullae::testing {
namespace {

namespace fs = std::filesystem;

class Source : public ::testing::Test {
 protected:
  Source() { cluster_.make_topic("reviews", 2); }

  static std::string review(int i) {
    const std::vector<std::string> words = {"bad", "good", "dull", "warm"};
    const int label = i % 2;
    return fmt::format(R"({{"text":"film{} is {} and {}","label":{}}})", i % 23,
                       words[static_cast<std::size_t>(label)],
                       words[static_cast<std::size_t>(label + 2)], label);
  }
  void put(int first, int count, std::int32_t partition = 0) const {
    for (int i = first; i < first + count; ++i) cluster_.put("reviews", partition, "", review(i));
    cluster_.flush();
  }
  std::string topic() const { return cluster_.address("reviews"); }

  std::vector<std::string> words(const std::vector<std::string>& options, int ranks = 1) const {
    std::vector<std::string> all{sullae_program(),
                                 "run",
                                 "--no-tag",
                                 "-np",
                                 std::to_string(ranks),
                                 "--cpus-per-rank",
                                 "1",
                                 sullae_program(),
                                 "train",
                                 "text",
                                 "--embedding-size",
                                 "8",
                                 "--batch-size",
                                 "20",
                                 "--lr",
                                 "0.05",
                                 "--lr-schedule",
                                 "constant"};
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }
  ProgramResult train(const std::vector<std::string>& options, int ranks = 1) const {
    return run_program(words(options, ranks), environment());
  }
  ProgramResult train_into(const fs::path& checkpoints, int epochs,
                           std::vector<std::string> options, int ranks = 1) const {
    const auto more = into(checkpoints, epochs);
    options.insert(options.end(), more.begin(), more.end());
    return train(options, ranks);
  }
  static std::vector<std::string> into(const fs::path& checkpoints, int epochs) {
    return {"--checkpoint-dir", checkpoints,          "--epochs", std::to_string(epochs),
            "--resume",         "--keep-checkpoints", "1"};
  }
  std::map<std::string, std::string> environment() const {
    return {{"SULLAE_KAFKA_CONFIG", cluster_.config()}, {"SULLAE_KAFKA_TIMEOUT", "60"}};
  }
  KafkaCluster cluster_;
  TemporaryDirectory directory_;
  fs::path straight_ = directory_.path() / "straight";
  fs::path stopped_ = directory_.path() / "stopped";
  const HiddenGpus hidden_;
};

TEST_F(Source, TrainsAsAFileOfTheSameMessagesDoes) {
  put(0, 300);
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += review(i) + '\n';
  const auto file = directory_.path() / "reviews.jsonl";
  write_file(file, lines);
  const auto of_topic = train_into(straight_, 2, {"--source", topic()}, 2);
  ASSERT_EQ(of_topic.exit_code, 0) << of_topic.standard_error;
  EXPECT_TRUE(
      contains(of_topic.standard_error, topic() + ": training on 300 messages of 1 partition"))
      << of_topic.standard_error;
  EXPECT_TRUE(contains(of_topic.standard_output, topic() + "?0=0-300")) << of_topic.standard_output;
  ASSERT_EQ(train_into(stopped_, 2, {"--data", file}, 2).exit_code, 0);
  expect_same_bits(straight_, stopped_);
}

// Whatever has come since.
TEST_F(Source, AResumedRunHasTheMessagesThatItHad) {
  put(0, 200, 0);
  put(200, 100, 1);
  ASSERT_EQ(train_into(straight_, 4, {"--source", topic()}, 2).exit_code, 0);
  ASSERT_EQ(train_into(stopped_, 2, {"--source", topic()}, 2).exit_code, 0);
  put(300, 100, 1);
  const auto resumed = train_into(stopped_, 4, {"--source", topic()}, 2);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.standard_error;
  EXPECT_TRUE(contains(resumed.standard_output, "resuming after epoch 2"));
  expect_same_bits(straight_, stopped_);
}

TEST_F(Source, AfterAKillItGoesOnToTheBit) {
  put(0, 300);
  ASSERT_EQ(train_into(straight_, 6, {"--source", topic()}, 2).exit_code, 0);
  {
    std::vector<std::string> options{"--source", topic(),          "--checkpoint-steps",
                                     "3",        "--log-interval", "1"};
    const auto more = into(stopped_, 6);
    options.insert(options.end(), more.begin(), more.end());
    Program program(words(options, 2), environment());
    ASSERT_TRUE(program.wait_for_output("epoch 3/6  step 8/"));
    program.signal(SIGKILL);
    program.wait();
  }
  EXPECT_TRUE(vanish(topic()));
  put(300, 50);
  const auto resumed = train_into(stopped_, 6, {"--source", topic()}, 2);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.standard_error;
  expect_same_bits(straight_, stopped_);
}

// Night after night.
TEST_F(Source, AGroupTrainsOnWhatHasComeSince) {
  put(0, 200);
  const auto first = train({"--source", topic(), "--group", "nightly", "--epochs", "1"});
  ASSERT_EQ(first.exit_code, 0) << first.standard_error;
  const auto none = train({"--source", topic(), "--group", "nightly", "--epochs", "1"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(contains(none.standard_error,
                       topic() + ": nothing has come that group 'nightly' has not done"))
      << none.standard_error;
  put(200, 50);
  put(250, 50, 1);
  const auto second = train({"--source", topic(), "--group", "nightly", "--epochs", "1"});
  ASSERT_EQ(second.exit_code, 0) << second.standard_error;
  EXPECT_TRUE(contains(second.standard_output, topic() + "?0=200-250&1=0-50"))
      << second.standard_output;
}

// Neither back, nor past what was not trained on.
TEST_F(Source, AGroupLosesNothing) {
  put(0, 200);
  const std::vector<std::string> options{"--source", topic(), "--group", "nightly"};
  ASSERT_EQ(train_into(stopped_, 1, options).exit_code, 0);
  put(200, 100);
  const auto again = train_into(stopped_, 1, options);
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_TRUE(contains(again.standard_error,
                       "--resume: group 'nightly' has done what the newest checkpoint in "))
      << again.standard_error;
  const auto later =
      train({"--source", topic() + "?0=250-300", "--group", "nightly", "--epochs", "1"});
  EXPECT_EQ(later.exit_code, 1);
  EXPECT_TRUE(contains(later.standard_error,
                       "partition 0: group 'nightly' is at 200, before the window, 250 to 300: "
                       "what is between would be lost to it"))
      << later.standard_error;
  // An earlier window does not take it back.
  ASSERT_EQ(
      train({"--source", topic() + "?0=0-100", "--group", "nightly", "--epochs", "1"}).exit_code,
      0);
  const auto next = train({"--source", topic(), "--group", "nightly", "--epochs", "1"});
  EXPECT_TRUE(contains(next.standard_output, topic() + "?0=200-300")) << next.standard_output;
}

// What fails is not done.
TEST_F(Source, AGroupThatFailedTrainsOnTheSameAgain) {
  put(0, 100);
  cluster_.put("reviews", 0, "", "{\"text\":");
  cluster_.flush();
  for (int i = 0; i < 2; ++i) {
    const auto failed = train({"--source", topic(), "--group", "nightly", "--epochs", "1"});
    EXPECT_EQ(failed.exit_code, 1);
    EXPECT_TRUE(
        contains(failed.standard_error, topic() + ", partition 0, offset 100: is no JSON: "))
        << failed.standard_error;
  }
  const auto skipped =
      train({"--source", topic(), "--group", "nightly", "--epochs", "1", "--skip-damaged"});
  EXPECT_EQ(skipped.exit_code, 0) << skipped.standard_error;
}

TEST_F(Source, RefusesWhatCannotBe) {
  const auto error = [&](const std::vector<std::string>& options) {
    const auto result = train(options);
    EXPECT_NE(result.exit_code, 0) << result.standard_output;
    return result.standard_error;
  };
  EXPECT_TRUE(contains(error({"--source", topic()}), topic() + ": holds no messages"));
  EXPECT_TRUE(contains(error({"--source", "reviews"}), "reviews: is no address of a topic"));
  EXPECT_TRUE(contains(error({"--group", "g", "--data", "x"}), "--group: needs --source"));
  EXPECT_TRUE(contains(error({"--source", topic(), "--data", "x"}), "--data excludes --source"));
  EXPECT_TRUE(
      contains(error({"--data", topic()}), "which messages is not said: expected --source"));
  EXPECT_TRUE(contains(error({"--source", topic(), "--evaluator"}), "--source: who tests"));
  put(0, 100);
  ASSERT_EQ(train_into(stopped_, 1, {"--source", topic()}).exit_code, 0);
  cluster_.make_topic("others", 1);
  cluster_.put("others", 0, "", review(0));
  cluster_.flush();
  const auto other = train_into(stopped_, 2, {"--source", cluster_.address("others")});
  EXPECT_TRUE(contains(other.standard_error, "are of topic 'reviews', and --source says 'others'"))
      << other.standard_error;
}

// From the weights of the first, with its words and classes.
TEST_F(Source, TrainingBeginsWithAnotherModel) {
  put(0, 300);
  const auto models = directory_.path() / "models";
  ASSERT_EQ(train({"--source", topic(), "--group", "g", "--epochs", "3", "--export", models,
                   "--export-name", "reviews"})
                .exit_code,
            0);
  put(300, 40);
  const auto report = directory_.path() / "report.json";
  const auto begun =
      train({"--source", topic(), "--group", "g", "--epochs", "1", "--lr", "0.000001",
             "--init-from", models / "reviews", "--report", report, "--checkpoint-dir", straight_});
  ASSERT_EQ(begun.exit_code, 0) << begun.standard_error;
  std::ifstream stream(report);
  EXPECT_GT(nlohmann::json::parse(stream).at("test_accuracy").get<double>(), 0.9)
      << "40 messages at this rate teach nothing";
  const auto description =
      train::description_of(read_checkpoint_metadata(newest_checkpoint(straight_)), "checkpoint");
  EXPECT_TRUE(std::ranges::find(description.words, "film22") != description.words.end())
      << "which the new messages do not have";
  cluster_.put("reviews", 0, "", R"({"text":"film","label":7})");
  put(340, 19);
  const auto unknown = train(
      {"--source", topic(), "--group", "g", "--epochs", "1", "--init-from", models / "reviews"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_TRUE(contains(unknown.standard_error, "its class is '7', expected one of 0, 1"))
      << unknown.standard_error;
  const auto other = run_program(
      {sullae_program(), "train", "mlp", "--init-from", models / "reviews", "--epochs", "1"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_TRUE(contains(other.standard_error, "is a model of 'sullae train text', not of 'mlp'"))
      << other.standard_error;
}

}  // namespace
}  // namespace sullae::testing

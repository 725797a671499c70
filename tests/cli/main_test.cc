// What a mistyped command line is told.
#include <gtest/gtest.h>

#include <regex>

#include "support/errors.h"
#include "support/program.h"

namespace sullae::testing {
namespace {

TEST(CommandLine, SaysWhichOptionWasProbablyMeant) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"serve", "models", "--http-prot", "1"},
       "--http-prot is not an option of sullae serve (did you mean --http-port?)"},
      {{"serve", "models", "--grpcport", "1"},
       "--grpcport is not an option of sullae serve (did you mean --grpc-port?)"},
      {{"train", "mnist", "--epoch", "1"},
       "--epoch is not an option of sullae train mnist (did you mean --epochs?)"},
      {{"train", "mnist", "--bach-sise", "1"},
       "--bach-sise is not an option of sullae train mnist (did you mean --batch-size?)"},
      {{"serve", "models", "--colour", "red"},
       "--colour is not an option of sullae serve; see sullae serve --help"},
      {{"train", "mnist", "--epochs", "1", "--threads", "1"},
       "--threads is not an option of sullae train mnist; see"},
      {{"serve", "models", "more"}, "more is not an option of sullae serve; see"},
      {{"server"}, "'server' is not a command of sullae (did you mean serve?); see sullae --help"},
      {{"train", "mnst"},
       "'mnst' is not a command of sullae train (did you mean mnist?); see sullae train --help"},
      {{"run", "--nproc-per-node", "2", "true"},
       "--nproc-per-node is not an option of sullae run (did you mean -np?); see sullae run "
       "--help"},
      {{"run", "--tag", "true"}, "--tag is not an option of sullae run (did you mean --no-tag?)"},
      {{"train", "mnist", "--epochs", "abc"},
       "sullae train mnist: --epochs: 'abc' is not a whole number; see sullae train mnist --help"},
      {{"serve"}, "sullae serve: repository is required; see sullae serve --help"},
      {{"jobs", "sue"}, "'sue' is not a command of sullae jobs; see sullae jobs --help"},
  };
  for (const auto& [words, message] : cases) {
    std::vector<std::string> all{sullae_program()};
    all.insert(all.end(), words.begin(), words.end());
    const auto result = run_program(all);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_TRUE(contains(result.standard_error, message)) << result.standard_error;
  }
}

TEST(CommandLine, TheVersionSaysWhatIsIn) {
  const auto result = run_program({sullae_program(), "--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(std::regex_match(
      result.standard_output,
      std::regex(
          R"(sullae \d+\.\d+\.\d+\nwith libtorch \d+\.\d+\.\d+, UCX(, MPI)?(, NCCL)?, JPEG, )"
          R"(TFRECORD, PARQUET, STORAGE, KAFKA, PS, HTTP, SERVING(; without (MPI|NCCL|MPI, NCCL))?\n)")))
      << result.standard_output;
}

// Before anything is read or trained.
TEST(CommandLine, ValuesAndPlacesAreCheckedAtOnce) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"train", "mnist", "--batch-size", "abc"}, "--batch-size: 'abc' is not a whole number"},
      {{"train", "mnist", "--epochs", "1.5"}, "--epochs: '1.5' is not a whole number"},
      {{"train", "mnist", "--lr", "fast"}, "--lr: 'fast' is not a number"},
      {{"run", "-np", "2", "--reset-limit", "3", "true"},
       "--reset-limit: is for elastic jobs: expected --min-np, --max-np or --discover with it"},
      {{"train", "mnist", "--beta1", "1"}, "--beta1 1, --beta2 0.999: expected 0 or more, and"},
      {{"train", "mnist", "--test-data", "x"}, "--test-data: means nothing to mnist"},
      {{"train", "lstm", "--prefetch", "2"}, "--prefetch: means nothing to lstm"},
      {{"train", "mnist", "--skip-damaged"}, "--skip-damaged: means nothing to mnist"},
      {{"train", "mnist", "--config", ""}, "--config: is empty"},
      {{"jobs", "submit", "--begin", "", "true"}, "--begin: is empty"},
      {{"jobs"}, "submit, list, show, watch, logs, cancel, resize, retry, nodes; see"},
      {{"bench", "-np=x", "allreduce"}, "--np: 'x' is not a whole number"},
      {{"train"}, "sullae: sullae train is followed by one of mnist, mlp, "},
      {{"data", "--workers", "3"}, "sullae data is followed by one of convert, shard, inspect"},
      {{"run", "-np=x", "true"}, "--np: 'x' is not a whole number"},
      {{"serve", ".", "--http-port", "70000"}, "'70000' is not a whole number of 0 to 65535"},
      {{"serve", ".", "--http-threads", "-1"}, "'-1' is not a whole number of 0 to 1024"},
      {{"data", "convert", ".", "--output", "x", "--files", "-1"},
       "'-1' is not a whole number of 0 or more"},
      {{"train", "mnist", "--export", ""}, "--export: is empty"},
      {{"run", "--restarts", "-1", "true"}, "'-1' is not a whole number of 0 or more"},
      {{"train", "mnist", "--export", "/proc/x"}, "--export: nothing can be written to /proc/x"},
      {{"train", "mnist", "--report", "/proc/x/y"}, "--report: nothing can be written to /proc/x"},
      {{"train", "mnist", "--report", "/proc"}, "--report /proc: is a folder, expected a file"},
      {{"scaling", "mnist", "--output", "/proc/x/y"},
       "--output: nothing can be written to /proc/x"},
  };
  for (const auto& [words, message] : cases) {
    std::vector<std::string> all{sullae_program()};
    all.insert(all.end(), words.begin(), words.end());
    const auto result = run_program(all);
    EXPECT_NE(result.exit_code, 0) << message;
    EXPECT_TRUE(contains(result.standard_error, message)) << result.standard_error;
    EXPECT_EQ(result.standard_output, "") << message;
  }
}

}  // namespace
}  // namespace sullae::testing

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/errors.h"
#include "support/program.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

ProgramResult bench(std::vector<std::string> words) {
  words.insert(words.begin(), {sullae_program(), "bench"});
  return run_program(words);
}

TEST(Bench, MeasuresEveryCollective) {
  for (const std::string collective :
       {"allreduce", "allgather", "reducescatter", "broadcast", "reduce", "alltoall"}) {
    for (const bool async : {false, true}) {
      SCOPED_TRACE(collective);
      std::vector<std::string> words = {collective, "--np",         "3", "--sizes",
                                        "7,12K",    "--iterations", "3", "--json"};
      if (async) words.emplace_back("--async");
      const auto result = bench(words);
      ASSERT_EQ(result.exit_code, 0) << result.standard_error;
      const auto report = nlohmann::json::parse(result.standard_output);
      ASSERT_EQ(report["results"].size(), 2U);
      EXPECT_EQ(report["world_size"], 3);
      const auto& large = report["results"][1];
      EXPECT_EQ(large["bytes"], 12288);
      EXPECT_EQ(large["backend"], "shm");
      EXPECT_GT(large["latency_us"], 0.0);
      const double algbw = large["algbw_gbps"];
      const double busbw = large["busbw_gbps"];
      EXPECT_NEAR(algbw, 12288 / large["latency_us"].get<double>() / 1e3, algbw * 1e-6);
      const double factor = collective == "allreduce"                             ? 4.0 / 3
                            : collective == "broadcast" || collective == "reduce" ? 1.0
                                                                                  : 2.0 / 3;
      EXPECT_NEAR(busbw, algbw * factor, algbw * 1e-6);
    }
  }
}

TEST(Bench, PrintsATable) {
  const auto result = bench({"allreduce", "-np", "2", "--sizes", "4:64", "--in-bucket",
                             "--iterations", "3", "--type", "float64", "--transport", "ucx"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(
      contains(result.standard_output, "allreduce of float64, 2 ranks on 1 host, ucx, in buckets"))
      << result.standard_output;
  EXPECT_TRUE(contains(result.standard_output, "busbw (GB/s)")) << result.standard_output;
  EXPECT_TRUE(contains(result.standard_output, "\n            64 ")) << result.standard_output;
}

TEST(Bench, MeasuresAmongTheRanksOfAJob) {
  const auto result =
      run_program({sullae_program(), "run", "-np", "2", "--no-tag", sullae_program(), "bench",
                   "barrier", "--iterations", "3", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(nlohmann::json::parse(result.standard_output)["world_size"], 2);
}

TEST(Bench, SaysWhatIsWrong) {
  const auto error = [](const std::vector<std::string>& words) {
    const auto result = bench(words);
    EXPECT_NE(result.exit_code, 0);
    return result.standard_error;
  };
  EXPECT_TRUE(contains(error({"allreduce", "--sizes", "4Q"}), "'4Q' is no size"));
  EXPECT_TRUE(contains(error({"allreduce", "--sizes", ""}), "'' is no size"));
  EXPECT_TRUE(contains(error({"allreduce", "--sizes", "0:64"}), "expected SIZE or FROM:TO"));
  EXPECT_TRUE(contains(error({"allreduce", "--sizes", "4:64:1"}), "a factor of 2 or more"));
  EXPECT_TRUE(contains(error({"allreduce", "--sizes", "64K:1K"}), "'64K:1K': FROM is above TO"));
  EXPECT_TRUE(contains(error({"allsum"}), "allsum not in"));
  EXPECT_TRUE(contains(error({"allreduce", "--np", "0"}), "'0' is not a whole number"));
}

// As a user would: through sullae run.
TEST(Autotune, WritesWhatItTriedAndSaysWhatItKept) {
  const TemporaryDirectory directory;
  const auto log = directory.path() / "tuning.csv";
  const auto result =
      run_program({sullae_program(), "run", "-np", "2", "--autotune", "--autotune-log-file",
                   log.string(), sullae_program(), "bench", "allreduce", "--sizes", "1K:16K:2",
                   "--async", "--iterations", "1000"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_error, "autotune: kept SULLAE_FUSION_THRESHOLD="))
      << result.standard_error;
  std::ifstream file(log);
  std::string last;
  for (std::string line; std::getline(file, line);) last = line;
  EXPECT_TRUE(last.starts_with("best,")) << last;
}

TEST(Autotune, ALogAloneIsAMistake) {
  const auto result =
      run_program({sullae_program(), "run", "-np", "2", "--autotune-log-file", "x.csv", "true"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(contains(result.standard_error, "--autotune-log-file requires --autotune"))
      << result.standard_error;
}

}  // namespace
}  // namespace sullae::testing

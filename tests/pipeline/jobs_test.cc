// Pipelines whose steps are jobs, and that are jobs themselves.
#include <algorithm>
#include <csignal>

#include "base/file.h"
#include "cluster/slurm/slurm_fixture.h"
#include "support/content_of.h"

namespace sullae::cluster {
namespace {

class PipelineJobs : public SlurmTest {
 protected:
  std::string read(const char* name) const { return testing::content_of(work_.path() / name); }
  void define(const std::string& text) const { write_file(work_.path() / "nightly.toml", text); }
  void wait_for_lines(const char* file, long count) const {
    const auto end = std::chrono::steady_clock::now() + kLong;
    while (std::ranges::count(read(file), '\n') < count) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << read(file);
      std::this_thread::sleep_for(std::chrono::milliseconds{200});
    }
  }
};

// Whoever is killed meanwhile: a step is submitted once.
TEST_F(PipelineJobs, StepsRunAsJobs) {
  define(R"(
[steps.a]
run = "echo $SULLAE_JOB_ID >> trace; sleep 5; touch a.out"
makes = "a.out"
job = ["--priority", "high"]
[steps.b]
run = "cp a.out b.out"
needs = "a.out"
makes = "b.out"
[steps.c]
run = "echo the reason; exit 7"
job = []
)");
  const Words run{sullae_program(), "pipeline", "run", "nightly.toml", "--scheduled", "2026-11-24"};
  {
    Program program(run, environment(), work_.path().string());
    ASSERT_TRUE(program.wait_for_output("a: begins"));
    wait_for_lines("trace", 1);
    program.signal(SIGKILL);
    program.wait();
  }
  const auto result = run_program(run, environment(), work_.path().string());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.standard_output, "b: done in ")) << result.standard_output;
  EXPECT_TRUE(contains(result.standard_output, "c: FAILED: ended with exit code 7"))
      << result.standard_output;
  EXPECT_EQ(std::ranges::count(read("trace"), '\n'), 1) << "one job";
  EXPECT_TRUE(std::filesystem::exists(work_.path() / "b.out"));
}

// The folder of what was done may be removed: then all is done again, jobs, too.
TEST_F(PipelineJobs, StepsAreSubmittedAgainWhereNothingIsKnownOfThem) {
  define("[steps.a]\nrun = \"echo x >> trace\"\njob = []\n");
  const Words run{"pipeline", "run", "nightly.toml", "--scheduled", "2026-11-24"};
  ASSERT_EQ(sullae(run).exit_code, 0);
  std::filesystem::remove_all(work_.path() / ".sullae");
  ASSERT_EQ(sullae(run).exit_code, 0);
  EXPECT_EQ(read("trace"), "x\nx\n");
}

TEST_F(PipelineJobs, WhatWasCancelledIsSubmittedAgain) {
  define("every = \"day at 02:00\"\n[steps.a]\nrun = \"true\"\n");
  const Words submit{"pipeline", "submit", "nightly.toml"};
  const auto first = sullae(submit);
  const auto id = first.standard_output.substr(first.standard_output.rfind(' ') + 1);
  EXPECT_TRUE(contains(sullae(submit).standard_output, "was submitted before for "));
  ASSERT_EQ(sullae({"jobs", "cancel", id.substr(0, id.size() - 1)}).exit_code, 0);
  const auto again = sullae(submit);
  EXPECT_EQ(again.exit_code, 0) << again.standard_error;
  EXPECT_TRUE(contains(again.standard_output, "nightly will run at ")) << again.standard_output;
  EXPECT_TRUE(
      contains(sullae({"jobs", "show", id.substr(0, id.size() - 1)}).standard_output, "pending"));
  sullae({"jobs", "cancel", id.substr(0, id.size() - 1)});
}

TEST_F(PipelineJobs, ARunSubmitsTheOneAfterIt) {
  define("every = \"15 seconds\"\n[steps.a]\nrun = \"echo {time} >> trace\"\n");
  const auto shown = sullae({"pipeline", "submit", "nightly.toml", "--dry-run"});
  EXPECT_TRUE(contains(shown.standard_output, "--begin=")) << shown.standard_output;
  const auto submitted = sullae({"pipeline", "submit", "nightly.toml"});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.standard_error;
  EXPECT_TRUE(contains(submitted.standard_output, "nightly will run at "))
      << submitted.standard_output;
  wait_for_lines("trace", 2);
  // Without a time there is no next one.
  define("[steps.a]\nrun = \"true\"\n");
  for (int i = 1; i < 20; ++i) sullae({"jobs", "cancel", "pipeline-nightly-" + std::to_string(i)});
  const auto times = read("trace");
  EXPECT_NE(times.substr(0, 24), times.substr(25, 24));
}

}  // namespace
}  // namespace sullae::cluster

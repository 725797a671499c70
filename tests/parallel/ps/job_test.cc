// Jobs with parameter servers, as `sullae run --ps` starts them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <regex>
#include <string>

#include "support/errors.h"
#include "support/program.h"
#include "support/temporary_directory.h"
#include "support/two_networks.h"

namespace sullae::testing {
namespace {

std::vector<std::string> words(const std::vector<std::string>& flags, const std::string& steps,
                               const std::string& rest = "0") {
  std::vector<std::string> all{sullae_program(), "run"};
  all.insert(all.end(), flags.begin(), flags.end());
  all.insert(all.end(), {PS_PROGRAM, steps, rest});
  return all;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(PsJob, TrainsWithAnyStaleness) {
  for (const char* staleness : {"0", "3", "-1"}) {
    const auto result =
        run_program(words({"--ps", "2", "-np", "3", "--staleness", staleness, "--no-tag"}, "200"));
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_EQ(count(result.standard_output, "3.00 2.00, at most"), 3U) << result.standard_output;
    if (std::string(staleness) == "0") {
      EXPECT_EQ(count(result.standard_output, "at most 0 steps ahead"), 3U);
    }
  }
}

pid_t pid_in(const std::string& output, int rank) {
  std::smatch found;
  const std::regex pattern(fmt::format("\\[{}\\] began as (\\d+)", rank));
  return std::regex_search(output, found, pattern) ? std::stoi(found[1]) : 0;
}

TEST(PsJob, GoesOnWithoutAWorkerThatIsKilled) {
  Program job(words({"--ps", "1", "-np", "3", "--staleness", "1"}, "400", "5"));
  for (const int rank : {0, 1, 2})
    ASSERT_TRUE(job.wait_for_output(fmt::format("[{}] began as", rank)));
  const pid_t pid = pid_in(job.output(), 2);
  ASSERT_GT(pid, 0);
  ::kill(pid, SIGKILL);
  const auto result = job.wait();
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(count(result.standard_output, "3.00 2.00"), 2U) << result.standard_output;
  EXPECT_TRUE(contains(result.standard_error,
                       "was killed by signal 9 (Killed); the other workers may go on"))
      << result.standard_error;
}

TEST(PsJob, HasServersThatWereStartedBefore) {
  Program server({sullae_program(), "ps", "--workers", "2", "--listen", "tcp://127.0.0.1:*",
                  "--end-with-workers"},
                 {{"SULLAE_JOB_SECRET", "shared"}});
  ASSERT_TRUE(server.wait_for_output("parameter server at tcp://127.0.0.1:"));
  const std::string said = server.output();
  const auto at = said.find("tcp://");
  const auto endpoint = said.substr(at, said.find('\n', at) - at);
  const auto result =
      run_program(words({"-np", "2", "--no-tag"}, "100"),
                  {{"SULLAE_JOB_SECRET", "shared"}, {"SULLAE_PS_SERVERS", endpoint}});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(count(result.standard_output, "3.00 2.00"), 2U) << result.standard_output;
  EXPECT_EQ(server.wait().exit_code, 0);
}

// They go on without it, and not to a world that it was to be in.
TEST(PsJob, ARankThatEndsBeforeItComesIsNotWaitedForInInit) {
  const auto result = run_program(
      {sullae_program(), "run", "--ps", "1", "-np", "3", "sh", "-c",
       "if [ $SULLAE_RANK = 1 ]; then exit 3; fi; exec \"$0\" train mlp --epochs 1 --max-steps 1",
       sullae_program()});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(contains(result.standard_error, "rank 1 has ended before it came, and rank 0 of 3"))
      << result.standard_error;
}

TEST(PsJob, EndsWithRankZero) {
  Program job(words({"--ps", "1", "-np", "2"}, "100000", "5"));
  ASSERT_TRUE(job.wait_for_output("[0] began as"));
  ::kill(pid_in(job.output(), 0), SIGKILL);
  const auto result = job.wait();
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  EXPECT_TRUE(contains(result.standard_error, "; ending the other ranks")) << result.standard_error;
}

pid_t parent_of(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string word; status >> word;) {
    if (word != "PPid:") continue;
    pid_t parent = 0;
    status >> parent;
    return parent;
  }
  return 0;
}

// Of the job that has this rank: one agent has started both.
pid_t server_beside(pid_t rank) {
  for (const pid_t pid : processes_with("--workers")) {
    if (parent_of(pid) == parent_of(rank)) return pid;
  }
  return 0;
}

// When its two workers have begun.
void kill_a_server_of(Program& job) {
  for (const int rank : {0, 1})
    ASSERT_TRUE(job.wait_for_output(fmt::format("[{}] began as", rank)));
  const pid_t server = server_beside(pid_in(job.output(), 0));
  ASSERT_GT(server, 0);
  ::kill(server, SIGKILL);
}

TEST(PsJob, StartsAServerAgainThatIsKilled) {
  Program job(words({"--ps", "2", "-np", "2"}, "400", "5"));
  kill_a_server_of(job);
  const auto result = job.wait();
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(count(result.standard_output, "3.00 2.00"), 2U) << result.standard_output;
  EXPECT_TRUE(contains(result.standard_error, "was killed by signal 9 (Killed); starting it again"))
      << result.standard_error;
}

// Each step adds 1: what a server that comes back has taken once it does not take again, and what
// it saved last is the least that it has.
TEST(PsJob, TakesNothingTwiceAfterAServerWasKilled) {
  const TemporaryDirectory directory;
  auto command = words({"--ps", "1", "-np", "2", "--staleness", "0", "--ps-dir",
                        (directory.path() / "servers").string()},
                       "200", "20");
  command.emplace_back("count");
  Program job(command);
  kill_a_server_of(job);
  const auto result = job.wait();
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  std::smatch found;
  const std::regex pattern(R"(\[0\] (-?[0-9.]+) -?[0-9.]+, at most 0 steps)");
  ASSERT_TRUE(std::regex_search(result.standard_output, found, pattern)) << result.standard_output;
  // A linear layer of one input begins with a slope between -1 and 1.
  EXPECT_LE(std::stod(found[1]), 201) << result.standard_output;
  EXPECT_GE(std::stod(found[1]), 100) << result.standard_output;
}

TEST(PsJob, SavesWhatServersHoldWhenItEnds) {
  const TemporaryDirectory directory;
  const auto run = [&] {
    return run_program(words(
        {"--ps", "2", "-np", "2", "--no-tag", "--ps-dir", (directory.path() / "servers").string()},
        "20"));
  };
  const auto first = run();
  EXPECT_EQ(first.exit_code, 0) << first.standard_error;
  // Two numbers are one slice, and on one server.
  EXPECT_TRUE(std::filesystem::exists(directory.path() / "servers" / "ps-0.state"));
  // 20 steps are too few to arrive, and those of five jobs are enough.
  EXPECT_EQ(count(first.standard_output, "3.00 2.00"), 0U) << first.standard_output;
  for (int job = 0; job < 4; ++job) {
    const auto next = run();
    EXPECT_EQ(next.exit_code, 0) << next.standard_error;
    if (job == 3) {
      EXPECT_EQ(count(next.standard_output, "3.00 2.00"), 2U) << next.standard_output;
    }
  }
}

TEST(PsJob, SaysWhatCannotBe) {
  const auto both = run_program(words({"--ps", "1", "-np", "2", "--min-np", "1"}, "1"));
  EXPECT_EQ(both.exit_code, 1);
  EXPECT_TRUE(contains(both.standard_error, "--ps with --min-np")) << both.standard_error;
  for (const char* const flag : {"--ps-dir", "--timeline"}) {
    const auto file = run_program(words({"--ps", "1", "-np", "1", flag, "/proc/none/x"}, "1"));
    EXPECT_EQ(file.exit_code, 1);
    EXPECT_TRUE(contains(file.standard_error, std::string(flag) + " /proc/none"))
        << file.standard_error;
    EXPECT_TRUE(contains(file.standard_error, ": nothing can be written there: "))
        << file.standard_error;
  }
  const auto alone = run_program(words({"-np", "1", "--staleness", "2"}, "1"));
  EXPECT_NE(alone.exit_code, 0);
  EXPECT_TRUE(contains(alone.standard_error, "--staleness requires --ps")) << alone.standard_error;
  const auto none = run_program(words({"-np", "1"}, "1"));
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(contains(none.standard_error, "no parameter servers: expected `sullae run --ps N`"))
      << none.standard_error;
}

class PsOverANetwork : public TwoNetworks {};

TEST_F(PsOverANetwork, TrainsOnTwoHosts) {
  const auto result = run_program(TwoNetworks::words(
      {"--no-tag", "--ps", "2", "-H", a_ + ":1," + b_ + ":2"}, {PS_PROGRAM, "200"}));
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_EQ(count(result.standard_output, "3.00 2.00"), 3U) << result.standard_output;
}

}  // namespace
}  // namespace sullae::testing

#include "sullae/run_log.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <thread>

#include "base/file.h"
#include "base/file_lock.h"
#include "runs/history.h"
#include "runs/record.h"
#include "support/content_of.h"
#include "support/errors.h"
#include "support/program.h"
#include "support/temporary_directory.h"
#include "support/variable.h"

namespace sullae::testing {
namespace {

namespace fs = std::filesystem;
using Earlier = RunLog::Earlier;
using Steps = std::vector<std::int64_t>;

class RunLogTest : public ::testing::Test {
 protected:
  runs::RunRecord record() const {
    const auto file = folder_ / runs::kRecordFile;
    return runs::record_from(read_file(file, 1 << 20), file);
  }
  runs::History history() const {
    runs::History history(folder_ / runs::kMetricsFile);
    history.update();
    return history;
  }
  std::string lines() const { return content_of(folder_ / runs::kMetricsFile); }
  void append(const std::string& text) const {
    std::ofstream(folder_ / runs::kMetricsFile, std::ios::app) << text;
  }

  TemporaryDirectory directory_;
  fs::path folder_ = directory_.path() / "some" / "run";
};

TEST_F(RunLogTest, SaysWhatARunIsAndWhatItCameTo) {
  const Variable job("SULLAE_JOB_FOLDER", "/jobs/mnist-7");
  {
    RunLog log(folder_, {.settings = {{"lr", "0.1"}}, .ranks = 4});
    EXPECT_EQ(is_locked(folder_ / runs::kMetricsFile), true);
    EXPECT_FALSE(record().ended);
    log.expect_steps(20);
    log.scalars(10, {{"train/loss", 0.5}, {"train/lr", 0.1}});
    log.scalars(20, {{"train/loss", 0.25}});
    log.note("그만 \"끝\"");
    log.completed();
    log.note("exported");
  }
  EXPECT_EQ(is_locked(folder_ / runs::kMetricsFile), false);
  const auto kept = record();
  EXPECT_EQ(kept.name, "run");
  EXPECT_EQ(kept.job, "mnist-7");
  EXPECT_EQ(kept.ranks, 4);
  EXPECT_EQ(kept.pid, ::getpid());
  EXPECT_EQ(kept.settings.at("lr"), "0.1");
  EXPECT_EQ(kept.step, 20);
  EXPECT_EQ(kept.steps, 20);
  EXPECT_EQ(kept.latest, (std::map<std::string, double>{{"train/loss", 0.25}, {"train/lr", 0.1}}));
  ASSERT_TRUE(kept.ended);
  EXPECT_EQ(kept.ended->end, runs::End::completed);
  const auto read = history();
  EXPECT_EQ(read.steps(), (std::vector<std::int64_t>{10, 20}));
  EXPECT_EQ(read.find("train/loss")->values, (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(read.find("train/lr")->rows, (std::vector<std::uint32_t>{0}));
  ASSERT_EQ(read.notes().size(), 2U);
  EXPECT_EQ(read.notes()[0].text, "그만 \"끝\"");
  EXPECT_EQ(read.damaged(), 0U);
}

TEST_F(RunLogTest, NumbersThatAreNoneAreKept) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  { RunLog(folder_, {}).scalars(0, {{"a", std::nan("")}, {"b", kInfinity}, {"c", -kInfinity}}); }
  const auto read = history();
  EXPECT_TRUE(std::isnan(read.find("a")->values[0]));
  EXPECT_EQ(read.find("b")->values[0], kInfinity);
  EXPECT_EQ(read.find("c")->values[0], -kInfinity);
  EXPECT_TRUE(std::isnan(record().latest.at("a")));
}

TEST_F(RunLogTest, HowItEndsIsToldApart) {
  { RunLog(folder_, {}).failed("a rank died"); }
  EXPECT_EQ(record().ended->end, runs::End::failed);
  EXPECT_EQ(record().ended->reason, "a rank died");
  { const RunLog log(folder_, {}, Earlier::continued); }
  EXPECT_EQ(record().ended->end, runs::End::stopped);
  { RunLog(folder_, {}, Earlier::continued).stopped("a node is taken back"); }
  EXPECT_EQ(record().ended->end, runs::End::stopped);
  EXPECT_EQ(record().ended->reason, "a node is taken back");
  try {
    const RunLog log(folder_, {}, Earlier::continued);
    throw Error("of the user's");
  } catch (const Error&) {
  }
  EXPECT_EQ(record().ended->end, runs::End::failed);
}

TEST_F(RunLogTest, ARunIsNotWrittenOver) {
  { RunLog(folder_, {}).scalars(1, {{"a", 1}}); }
  const auto before = lines();
  EXPECT_TRUE(contains(error_of<InputError>([&] { RunLog(folder_, {}); }),
                       "there is a run in it already: expected another folder, or to go on"));
  EXPECT_EQ(lines(), before);
  const Variable limit("SULLAE_RUN_LOCK_TIMEOUT", "0.2");
  const RunLog log(folder_, {}, Earlier::continued);
  EXPECT_TRUE(contains(error_of<InputError>([&] { RunLog(folder_, {}, Earlier::continued); }),
                       "another process writes this run"));
}

TEST_F(RunLogTest, AJobThatIsStartedAgainIsTheSame) {
  const auto attempt = [&](const char* job, int steps) {
    const Variable id("SULLAE_JOB_ID", job);
    RunLog log(folder_, {});
    for (int step = 1; step <= steps; ++step) log.scalars(step, {{"a", steps}});
    if (steps == 2) {
      log.completed();
    } else {
      log.failed("a rank died");
    }
  };
  attempt("host-1-100", 5);
  EXPECT_TRUE(contains(error_of<InputError>([&] { attempt("host-2-100", 3); }), "a run in it"));
  EXPECT_TRUE(contains(error_of<InputError>([&] { RunLog(folder_, {}); }), "a run in it"));
  attempt("host-1-101", 3);
  EXPECT_EQ(history().steps(), (Steps{1, 2, 3})) << "from its beginning";
  EXPECT_EQ(history().find("a")->values.back(), 3);
  attempt("host-1-102", 2);
  EXPECT_TRUE(contains(error_of<InputError>([&] { attempt("host-1-103", 4); }), "a run in it"))
      << "one that has completed is not begun again";
}

TEST_F(RunLogTest, WaitsForOneThatIsAboutToEnd) {
  auto first = std::make_unique<RunLog>(folder_, RunDescription{});
  std::thread ending([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds{200});
    first.reset();
  });
  RunLog(folder_, {}, Earlier::continued).completed();
  ending.join();
  EXPECT_EQ(record().ended->end, runs::End::completed) << "its word is the last";
}

TEST_F(RunLogTest, WrongTagsAndStepsAreRefused) {
  RunLog log(folder_, {});
  for (const char* const tag : {"", "time", "step", "note", "goes_on"})
    EXPECT_TRUE(contains(error_of<InputError>([&] {
                           log.scalars(1, {{tag, 1}});
                         }),
                         "is no tag of a curve: expected one such as train/loss"));
  EXPECT_TRUE(contains(error_of<InputError>([&] { log.scalars(-1, {{"a", 1}}); }), "step -1"));
  EXPECT_EQ(lines(), "");
  log.scalars(5, {{"a", 1}});
  log.scalars(5, {{"b", 1}});
  EXPECT_TRUE(contains(error_of<InputError>([&] {
                         log.scalars(4, {{"a", 1}});
                       }),
                       "step 4: expected one from 5 on: steps count from the beginning"));
  log.goes_on_after(2);  // as where weights of a checkpoint are taken up
  log.scalars(3, {{"a", 1}});
  EXPECT_EQ(history().steps(), Steps{3});
}

TEST_F(RunLogTest, GoesOnWhereItSaysAndElseWhereItBegins) {
  {
    RunLog log(folder_, {});
    log.goes_on_after(0);  // of a new run
    EXPECT_EQ(lines(), "");
    for (int step = 1; step <= 9; ++step) log.scalars(step, {{"a", step}});
  }
  { RunLog(folder_, {}, Earlier::continued).scalars(8, {{"a", 80}}); }
  EXPECT_EQ(history().steps(), (Steps{1, 2, 3, 4, 5, 6, 7, 8}));
  {
    RunLog log(folder_, {}, Earlier::taken_over);
    log.goes_on_after(6);
    log.scalars(6, {{"b", 1}});
    log.scalars(7, {{"a", 70}});
  }
  EXPECT_EQ(history().steps(), (Steps{1, 2, 3, 4, 5, 6, 6, 7}));
  EXPECT_EQ(history().find("a")->values.back(), 70);
  EXPECT_EQ(history().damaged(), 0U);
}

TEST_F(RunLogTest, FilesOfOthersAreLeftAlone) {
  fs::create_directories(folder_);
  append("{\"mine\": 1}\nand a part");
  for (const auto earlier : {Earlier::refused, Earlier::continued})
    EXPECT_TRUE(contains(error_of<InputError>([&] { RunLog(folder_, {}, earlier); }),
                         "metrics.jsonl: is there, and no run.json beside it"));
  EXPECT_EQ(lines(), "{\"mine\": 1}\nand a part");
  fs::remove(folder_ / runs::kMetricsFile);
  std::ofstream(folder_ / runs::kRecordFile) << R"({"sullae_run": 2})";
  EXPECT_TRUE(contains(error_of<InputError>([&] { RunLog(folder_, {}, Earlier::continued); }),
                       "it is of format 2"));
}

TEST_F(RunLogTest, APipeIsNoFileOfLines) {
  fs::create_directories(folder_);
  ASSERT_EQ(::mkfifo((folder_ / runs::kMetricsFile).c_str(), 0600), 0);
  EXPECT_TRUE(contains(error_of<InputError>([&] { RunLog(folder_, {}); }), "is no file"));
}

TEST_F(RunLogTest, AForkIsNotTheRun) {
  auto log = std::make_unique<RunLog>(folder_, RunDescription{});
  const pid_t child = ::fork();
  if (child == 0) {
    log.reset();
    ::pause();
    ::_exit(0);
  }
  log->scalars(1, {{"a", 1}});
  EXPECT_EQ(is_locked(folder_ / runs::kMetricsFile), true);
  log->completed();
  log.reset();
  EXPECT_EQ(record().ended->end, runs::End::completed);
  EXPECT_EQ(is_locked(folder_ / runs::kMetricsFile), false) << "though a fork lives";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(RunLogTest, APartOfALineIsTakenBack) {
  { RunLog(folder_, {}).scalars(1, {{"a", 1}}); }
  append(R"({"step":2,"ti)");
  EXPECT_EQ(history().steps().size(), 1U);
  { RunLog(folder_, {}, Earlier::continued).scalars(2, {{"a", 2}}); }
  EXPECT_EQ(history().steps(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(history().damaged(), 0U);
  EXPECT_FALSE(contains(lines(), R"("ti{)"));
}

TEST_F(RunLogTest, AFullDiskTakesNoHalfLine) {
  // A file system of a few pages would need a mount; a limit on files' sizes fails the same way, in
  // the middle of a line.
  const auto result = run_program({"bash", "-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "bash",
                                   RUN_LOG_PROGRAM, folder_, "100"});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(contains(result.standard_error, "metrics.jsonl: File too large"))
      << result.standard_error;
  const auto read = history();
  EXPECT_FALSE(read.steps().empty());
  EXPECT_EQ(read.damaged(), 0U);
  EXPECT_EQ(lines().back(), '\n');
  EXPECT_EQ(std::to_string(read.steps().back()) + "\n",
            result.standard_output.substr(
                result.standard_output.rfind('\n', result.standard_output.size() - 2) + 1));
}

TEST_F(RunLogTest, WhatWasWrittenOutlivesAKill) {
  Program program({RUN_LOG_PROGRAM, folder_, "100000000"});
  ASSERT_TRUE(program.wait_for_output("\n5000\n"));
  program.signal(SIGKILL);
  const auto said = program.wait().standard_output;
  const auto read = history();
  ASSERT_GE(read.steps().size(), 5000U);
  for (std::size_t i = 0; i < read.steps().size(); ++i)
    ASSERT_EQ(read.steps()[i], static_cast<std::int64_t>(i) + 1);
  const auto last = said.rfind('\n', said.size() - 2);
  EXPECT_GE(read.steps().back(), std::stol(said.substr(last + 1)));
  EXPECT_EQ(read.damaged(), 0U);
  EXPECT_FALSE(record().ended);
  EXPECT_EQ(is_locked(folder_ / runs::kMetricsFile), false);
}

TEST_F(RunLogTest, ADamagedRecordIsWrittenAnew) {
  { RunLog(folder_, {}).scalars(1, {{"a", 1}}); }
  std::ofstream(folder_ / runs::kRecordFile) << "{";
  {
    RunLog log(folder_, {}, Earlier::continued);
    log.scalars(2, {{"a", 2}});
    log.completed();
  }
  EXPECT_TRUE(record().ended);
  EXPECT_EQ(history().steps(), (Steps{1, 2}));
}

}  // namespace
}  // namespace sullae::testing

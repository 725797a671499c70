#include "cluster/job.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::cluster {
namespace {

using testing::contains;
using testing::error_of;
using testing::TemporaryDirectory;
using Words = std::vector<std::string>;

Job some_job() {
  return {.command = {"./train", "--epochs", "3"}, .name = "train", .directory = "/home/me"};
}

Job written_and_read(const Job& job) {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "job.toml";
  std::ofstream(file) << to_toml(job);
  return read_job(file);
}

std::string error_in(const std::string& text) {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "job.toml";
  std::ofstream(file) << text;
  return error_of([&] { read_job(file); });
}

TEST(Job, IsTheSameWhenItHasBeenWritten) {
  EXPECT_EQ(written_and_read(some_job()), some_job());
  Job job = some_job();
  job.command = {"sh", "-c", "echo \"it's\" \\ \n{data}"};
  job.environment = {{"A", "1"}, {"LANG", "ko_KR.UTF-8"}, {"quotes", "'\""}};
  job.min_nodes = 2;
  job.max_nodes = 7;
  job.ranks_per_node = 4;
  job.cpus_per_rank = 8;
  job.priority = "17";
  job.time = std::chrono::hours{30};
  job.begin = "2026-11-25T02:00:00+0900";
  job.deadline = "2026-11-25T06:00:00";
  job.after = "other-3";
  job.mounts = {{"data", "/mnt/data"}};
  job.idempotency_key = "nightly 2026-11-25";
  job.attempts = 3;
  job.engine_options = {"--gres=gpu:4", "--account=physics"};
  EXPECT_EQ(written_and_read(job), job);
}

TEST(Job, OfAFileSaysWhatIsWrongAndWhere) {
  EXPECT_TRUE(contains(error_in("name = 'a'\nnods = 3\n"), "line 2"));
  EXPECT_TRUE(contains(error_in("command = 'train'\n"),
                       "line 1: command: expected a list of texts, got 'train'"));
  EXPECT_TRUE(contains(error_in("\nmin-nodes = 0\n"), "line 2"));
  EXPECT_TRUE(contains(error_in("nodes = 2\nmin-nodes = 1\n"),
                       "line 2: nodes and min-nodes: expected one of them"));
  EXPECT_TRUE(contains(error_in("time = 'soon'\n"), "line 1: time 'soon': expected minutes"));
  EXPECT_TRUE(contains(error_in("env = 3\n"), "line 1: env: expected a table of texts, got 3"));
}

TEST(Job, ThatCannotBeIsRefused) {
  const auto error_with = [](auto change) {
    Job job = some_job();
    change(job);
    return error_of([&] { check(job); });
  };
  EXPECT_EQ(error_with([](Job&) {}), "nothing was thrown");
  EXPECT_TRUE(contains(error_with([](Job& job) { job.command.clear(); }), "no program given"));
  EXPECT_TRUE(contains(error_with([](Job& job) { job.name = "a/b"; }), "--name 'a/b'"));
  EXPECT_TRUE(contains(error_with([](Job& job) { job.name = "../x"; }), "--name"));
  EXPECT_EQ(error_with([](Job& job) { job.attempts = 2'000'000; }),
            "--attempts 2000000: expected 1 to 1000000");
  EXPECT_TRUE(contains(error_with([](Job& job) { job.command.push_back("caf\xe9"); }),
                       "' is no UTF-8, and job.toml, which keeps the job, is"));
  EXPECT_TRUE(contains(error_with([](Job& job) { job.max_nodes = 0; }),
                       "--min-nodes 1, --max-nodes 0: expected them in this order"));
  for (const std::string priority : {"urgent", "5000000000", "-1"}) {
    EXPECT_EQ(
        error_with([&](Job& job) { job.priority = priority; }),
        "--priority '" + priority + "': expected high, low or a whole number up to 4294967295");
  }
  EXPECT_TRUE(contains(error_with([](Job& job) { job.deadline = "tomorrow"; }),
                       "--deadline 'tomorrow': expected a time such as 2026-11-25T06:00:00"));
  EXPECT_TRUE(contains(error_with([](Job& job) { job.begin = "soon"; }),
                       "--begin 'soon': expected a time such as 2026-11-25T06:00:00"));
  EXPECT_TRUE(contains(error_with([](Job& job) {
                         job.begin = "2026-11-25T06:00:00";
                         job.deadline = job.begin;
                       }),
                       "--begin 2026-11-25T06:00:00, --deadline 2026-11-25T06:00:00: expected "
                       "them in this order"));
  EXPECT_TRUE(contains(error_with([](Job& job) {
                         job.mounts = {{"data", "data"}};
                       }),
                       "--mount data=data: expected a path from the root"));
  const auto error_of_mark = [&](const std::string& word) {
    return error_with([&](Job& job) {
      job.mounts = {{"data", "/mnt/data"}};
      job.command = {"sh", "-c", word};
    });
  };
  EXPECT_EQ(error_of_mark("--data={dta}"), "'--data={dta}': {dta} is no --mount; there is {data}");
  for (const char* const good : {"{data}/a", "${HOME} {data}", "{\"a\": 1}", "{}", "{a b}"})
    EXPECT_EQ(error_of_mark(good), "nothing was thrown") << good;
}

TEST(Job, TimesAreSlurmsAndThoseThatPeopleWrite) {
  const std::vector<std::pair<std::string, int>> times = {
      {"90", 5400},        {"30s", 30},           {"90m", 5400},     {"2h", 7200},
      {"1d", 86400},       {"5:30", 330},         {"1:00:00", 3600}, {"1-12", 129600},
      {"1-12:30", 131400}, {"2-00:00:01", 172801}};
  for (const auto& [text, seconds] : times)
    EXPECT_EQ(parse_time_limit(text, "").count(), seconds) << text;
  for (const char* const wrong :
       {"", "0", "x", "1:", "1:2:3:4", "-5", "1h30", "m", "99999999999999"})
    EXPECT_TRUE(contains(error_of([&] { parse_time_limit(wrong, "--time"); }), "--time '"))
        << wrong;
  EXPECT_EQ(format_time_limit(std::chrono::seconds{93784}), "1-02:03:04");
  EXPECT_EQ(parse_time_limit(format_time_limit(std::chrono::seconds{59}), "").count(), 59);
}

TEST(Job, TrainsOnAfterItsNewestCheckpoint) {
  Job job = some_job();
  EXPECT_EQ(command_of_attempt(job, "/jobs/a-1", 2), job.command);
  job.command = {"sullae", "train", "mnist", "--epochs", "3"};
  EXPECT_EQ(command_of_attempt(job, "/jobs/a-1", 1),
            (Words{"sullae", "train", "mnist", "--epochs", "3", "--checkpoint-dir",
                   "/jobs/a-1/checkpoints", "--report", "/jobs/a-1/report.json", "--run-dir",
                   "/jobs/a-1/run"}));
  EXPECT_EQ(command_of_attempt(job, "/jobs/a-1", 2).back(), "--resume");
  job.command = {"/opt/bin/sullae", "train", "mnist",   "--checkpoint-dir=/c", "--report", "r.json",
                 "--run-dir",       "/r",    "--resume"};
  EXPECT_EQ(command_of_attempt(job, "/jobs/a-1", 2), job.command);
}

TEST(Job, MountsStandForTheirPaths) {
  Job job = some_job();
  job.mounts = {{"data", "/mnt/nfs/data"}, {"out", "/mnt/out"}};
  job.command = {"./train", "{data}/a:{data}/b", "--to={out}", "{other}"};
  EXPECT_EQ(command_of_attempt(job, "/jobs/a-1", 1),
            (Words{"./train", "/mnt/nfs/data/a:/mnt/nfs/data/b", "--to=/mnt/out", "{other}"}));
}

}  // namespace
}  // namespace sullae::cluster

#include "cluster/job_folder.h"

#include <gtest/gtest.h>
#include <sys/mount.h>

#include <fstream>
#include <thread>

#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::cluster {
namespace {

using testing::contains;
using testing::error_of;
using testing::TemporaryDirectory;

class JobFolderTest : public ::testing::Test {
 protected:
  static Job job(const std::string& name, const std::string& key = {}) {
    return {.command = {"true"}, .name = name, .directory = "/", .idempotency_key = key};
  }
  TemporaryDirectory directory_;
  JobFolders folders_{directory_.path() / "jobs"};
};

TEST_F(JobFolderTest, JobsAreNumbered) {
  EXPECT_TRUE(folders_.all().empty());
  EXPECT_EQ(folders_.make(job("mnist")).folder.id(), "mnist-1");
  EXPECT_EQ(folders_.make(job("a-b")).folder.id(), "a-b-2");
  for (int i = 3; i < 12; ++i) folders_.make(job("x"));
  EXPECT_EQ(folders_.all().back().id(), "x-11");  // by number, not by name
  EXPECT_EQ(folders_.find("2").id(), "a-b-2");
  EXPECT_EQ(folders_.find("mnist-1").job(), job("mnist"));
  const auto error = error_of([&] { folders_.find("mnist"); });
  EXPECT_TRUE(contains(error, "there is no job 'mnist'") && contains(error, "the last one is x-11"))
      << error;
  const auto mode = std::filesystem::status(folders_.find("2").path()).permissions();
  EXPECT_EQ(mode, std::filesystem::perms::owner_all);
}

TEST_F(JobFolderTest, NoNumberIsGivenTwice) {
  folders_.make(job("a"));
  std::filesystem::remove_all(folders_.make(job("a")).folder.path());
  EXPECT_EQ(folders_.make(job("a")).folder.id(), "a-3") << "a-2 may still run";
  std::filesystem::remove(folders_.root() / ".last");  // of jobs that were there before it
  EXPECT_EQ(folders_.make(job("a")).folder.id(), "a-4");
}

TEST_F(JobFolderTest, ManyAtOnceMakeEachTheirOwn) {
  constexpr int kThreads = 8;
  constexpr int kEach = 10;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        folders_.make(job("n" + std::to_string(t)));
        folders_.make(job("shared", "key " + std::to_string(i)));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(folders_.all().size(), static_cast<std::size_t>(kThreads * kEach + kEach));
}

TEST_F(JobFolderTest, AKeyIsOneJobs) {
  const auto first = folders_.make(job("a", "k"));
  const auto again = folders_.make(job("a", "k"));
  EXPECT_TRUE(first.is_new);
  EXPECT_FALSE(again.is_new);
  EXPECT_EQ(again.folder.id(), first.folder.id());
  Job other = job("a", "k");
  other.command = {"false"};
  EXPECT_TRUE(contains(error_of([&] { folders_.make(other); }),
                       "--idempotency-key k: job a-1 has this key, and is another one"));
}

TEST_F(JobFolderTest, WhatSomebodyLeftWhoWasKilledIsNoJob) {
  std::filesystem::create_directories(folders_.root() / ".mnist-1.tmp");
  std::ofstream(folders_.root() / ".mnist-1.tmp" / "job.toml") << "torn";
  EXPECT_TRUE(folders_.all().empty());
  EXPECT_EQ(folders_.make(job("mnist")).folder.job(), job("mnist"));
  EXPECT_FALSE(std::filesystem::exists(folders_.root() / ".mnist-1.tmp"));
}

TEST_F(JobFolderTest, AttemptsAndResultsAreKept) {
  const JobFolder folder = folders_.make(job("a")).folder;
  EXPECT_EQ(folder.attempts(), 0);
  EXPECT_EQ(folder.begin_attempt(), 1);
  EXPECT_EQ(folder.begin_attempt(), 2);
  EXPECT_EQ(folder.attempts(), 2);
  EXPECT_FALSE(folder.attempt_result(1));
  folder.end_attempt(
      1, {.end = End::preempted, .exit_code = 143, .reason = "its nodes \"n1\"", .attempts = 1});
  EXPECT_EQ(folder.attempt_result(1)->end, End::preempted);
  EXPECT_EQ(folder.attempt_result(1)->reason, "its nodes \"n1\"");
  folder.set_result(
      {.end = End::past_deadline, .exit_code = 1, .submission = 1, .started = 10, .ended = 20});
  EXPECT_EQ(folder.result(1)->end, End::past_deadline);
  EXPECT_EQ(folder.result(1)->ended, 20);
  EXPECT_FALSE(folder.result(2)) << "a retry has no result yet";
}

TEST_F(JobFolderTest, DamageIsNamed) {
  const JobFolder folder = folders_.make(job("a")).folder;
  std::ofstream(folder.path() / "result.json") << "{";
  EXPECT_TRUE(contains(error_of([&] { folder.result(1); }), "a-1/result.json"));
  std::ofstream(folder.path() / "result.json") << R"({"state":"lost"})";
  EXPECT_TRUE(contains(error_of([&] { folder.result(1); }), "state 'lost' is none"));
}

TEST_F(JobFolderTest, OnFullStorageNothingIsHalfMadeAndAnEndIsWrittenDown) {
  const auto storage = directory_.path() / "storage";
  std::filesystem::create_directory(storage);
  if (::mount("tmpfs", storage.c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "SKIPPED: mounting a small file system needs root";
  const JobFolders folders(storage / "jobs");
  const JobFolder folder = folders.make(job("a")).folder;
  const int attempt = folder.begin_attempt();
  {
    std::ofstream log(folder.attempt(attempt) / "log");
    while (log << std::string(1 << 10, 'x') << std::flush) {
    }
  }
  EXPECT_TRUE(contains(error_of([&] { folders.make(job("b")); }), "No space left on device"));
  EXPECT_EQ(folders.all().size(), 1U);
  const Result result{.end = End::completed, .submission = 1, .started = 10, .ended = 20};
  folder.end_attempt(attempt, result);
  folder.set_result(result);
  EXPECT_EQ(folder.attempt_result(attempt)->end, End::completed);
  EXPECT_EQ(folder.result(1)->ended, 20);
  ::umount2(storage.c_str(), MNT_DETACH);
}

TEST_F(JobFolderTest, StorageThatIsNotThereIsNamed) {
  const JobFolders nowhere("/proc/sullae/jobs");
  EXPECT_TRUE(contains(error_of([&] { nowhere.make(job("a")); }),
                       "/proc/sullae/jobs, where jobs are kept, cannot be made"));
  EXPECT_TRUE(nowhere.all().empty());
}

}  // namespace
}  // namespace sullae::cluster

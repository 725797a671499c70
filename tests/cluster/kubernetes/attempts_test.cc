// A job whose pods the cluster starts: a coordinator for each attempt, and workers once.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "cluster/coordinator.h"
#include "cluster/job_folder.h"
#include "cluster/settings.h"
#include "support/content_of.h"
#include "support/errors.h"
#include "support/program.h"
#include "support/temporary_directory.h"
#include "support/wait_until.h"

namespace sullae::cluster {
namespace {

using testing::Program;

class KubernetesAttempts : public ::testing::Test {
 protected:
  KubernetesAttempts() {
    std::filesystem::create_directories(cluster_);
    std::ofstream(cluster_ / "cluster.toml") << to_toml(Settings{.address = "127.0.0.1"});
    put({});
  }
  void put(Job changed) {
    changed.name = "a";
    changed.directory = directory_.path();
    if (changed.command.empty())
      changed.command = {"sh", "-c", "echo begun; test $SULLAE_JOB_ATTEMPT -gt 1 || sleep 600"};
    changed.attempts = 5;
    std::filesystem::create_directories(folder_.path());
    std::ofstream(folder_.path() / "job.toml") << to_toml(changed);
  }
  std::map<std::string, std::string> environment(const std::string& submission) const {
    return {{"SULLAE_CLUSTER", cluster_}, {kSubmissionVariable, submission}};
  }
  Program coordinator(const std::string& submission = "one") const {
    return Program(
        {testing::sullae_program(), "jobs", "coordinate", "--engine", "kubernetes", folder_.path()},
        environment(submission));
  }
  Program worker() const {
    return Program({testing::sullae_program(), "jobs", "work", "--stay", "--engine", "kubernetes",
                    folder_.path()},
                   environment(""));
  }
  std::string log_of(int attempt) const {
    const auto file = folder_.attempt(attempt) / "log";
    return std::filesystem::exists(file) ? testing::content_of(file) : "";
  }
  bool waits_in(int attempt, const char* text) const {
    testing::wait_until([&] { return testing::contains(log_of(attempt), text); });
    return true;
  }

  testing::TemporaryDirectory directory_;
  std::filesystem::path cluster_ = directory_.path() / "cluster";
  JobFolder folder_{directory_.path() / "jobs" / "a-1"};
};

TEST_F(KubernetesAttempts, WorkersStayForTheNext) {
  Program worker = this->worker();
  {
    Program first = coordinator();
    ASSERT_TRUE(waits_in(1, "begun"));
    first.signal(SIGTERM);
    EXPECT_EQ(first.wait().exit_code, kGoesOn) << log_of(1);
  }
  Program second = coordinator();
  EXPECT_EQ(second.wait().exit_code, 0) << log_of(2);
  EXPECT_EQ(worker.wait().exit_code, 0);
  EXPECT_EQ(folder_.result(1)->end, End::completed);
}

TEST_F(KubernetesAttempts, AWorkerThatIsToldToEndDoes) {
  Program worker = this->worker();
  Program first = coordinator();
  ASSERT_TRUE(waits_in(1, "begun"));
  worker.signal(SIGTERM);
  EXPECT_EQ(worker.wait().exit_code, 128 + SIGTERM);
  EXPECT_EQ(first.wait().exit_code, kGoesOn) << log_of(1);
}

TEST_F(KubernetesAttempts, ACoordinatorThatWaitsForWorkersHearsThatItIsToEnd) {
  Program first = coordinator();
  ASSERT_TRUE(waits_in(1, "attempt 1 of job a-1"));
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait().exit_code, kGoesOn) << log_of(1);
  EXPECT_EQ(folder_.attempt_result(1)->end, End::preempted);
}

TEST_F(KubernetesAttempts, TheTimeOfAnAttemptIsKeptWithoutAnEngineThatKnowsIt) {
  put({.command = {"sleep", "600"}, .time = std::chrono::seconds{2}});
  Program worker = this->worker();
  Program first = coordinator();
  EXPECT_EQ(first.wait().exit_code, kGoesOn) << log_of(1);
  EXPECT_EQ(folder_.attempt_result(1)->end, End::timed_out);
  worker.signal(SIGTERM);
  worker.wait();
}

// With kubectl apply, after whatever end it had.
TEST_F(KubernetesAttempts, ASubmissionThatIsMadeAgainGoesOn) {
  put({.command = {"sh", "-c", "test -e mended"}});
  {
    Program worker = this->worker();
    EXPECT_EQ(coordinator().wait().exit_code, 1);
    EXPECT_EQ(worker.wait().exit_code, 0);
  }
  EXPECT_EQ(coordinator().wait().exit_code, 1) << "begun again by the cluster, and over";
  EXPECT_EQ(folder_.attempts(), 1);
  std::ofstream(directory_.path() / "mended") << "";
  Program worker = this->worker();
  EXPECT_EQ(coordinator("two").wait().exit_code, 0) << log_of(2);
  EXPECT_EQ(folder_.result(2)->end, End::completed);
  worker.wait();
}

}  // namespace
}  // namespace sullae::cluster

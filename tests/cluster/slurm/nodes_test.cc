// Nodes that do not start, and daemons that end.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "cluster/slurm/slurm_fixture.h"
#include "support/content_of.h"
#include "support/wait_until.h"

namespace sullae::cluster {
namespace {

class NodesTest : public SlurmTest {
 protected:
  pid_t pid_of(const std::string& daemon) const {
    pid_t pid = 0;
    std::ifstream(directory_.path() / "run" / (daemon + ".pid")) >> pid;
    return pid;
  }
};

TEST_F(NodesTest, ThatDoNotStartAreUsedAgainLater) {
  const auto resume = directory_.path() / "resume";
  const auto working = testing::content_of(resume);
  const auto tried = directory_.path() / "log" / "tried";
  std::ofstream(resume) << "#!/bin/sh\ntouch " << tried << "\nexit 1\n";
  const auto job = submit({"--name", "three", "--nodes", "3", "true"});
  testing::wait_until([&] { return std::filesystem::exists(tried); });
  std::ofstream(resume) << working;
  wait_for_state(job, "completed");
}

TEST_F(NodesTest, GoOnWhenTheControllerIsLost) {
  start_nodes();
  const auto stop = (work_.path() / "stop").string();
  const auto job = submit({"--name", "long", "--nodes", "2", "sh", "-c",
                           "until [ -e " + stop + " ]; do sleep 0.1; done"});
  wait_for_nodes(job, 2);
  // Slurm keeps what happens every few seconds: the rest is lost with it.
  const auto kept = directory_.path() / "state" / "job_state";
  const auto runs = std::filesystem::file_time_type::clock::now();
  testing::wait_until([&] {
    std::error_code error;  // it is replaced, and away for a moment
    const auto written = std::filesystem::last_write_time(kept, error);
    return !error && written > runs;
  });
  const auto controller = pid_of("slurmctld");
  ASSERT_GT(controller, 1);
  ::kill(controller, SIGKILL);
  testing::wait_until([&] { return pid_of("slurmctld") != controller; });
  wait_for_nodes(job, 2);
  std::ofstream{stop};
  EXPECT_EQ(wait_for_state(job, "completed").at("attempts"), 1);
  wait_for_state(submit({"--nodes", "3", "true"}), "completed");
}

// It begins again, on that node, too: what was left there of the first attempt is gone.
TEST_F(NodesTest, WhoseDaemonIsKilledCostAFixedJobAnAttempt) {
  start_nodes();
  const auto job = submit({"--name", "fixed", "--nodes", "3", "sh", "-c",
                           "test $SULLAE_JOB_ATTEMPT = 2 || sleep 1000"});
  wait_for_nodes(job, 3);
  // The one that has the batch script, too.
  testing::wait_until([&] { return sullae({"jobs", "logs", job, "--node", "n1"}).exit_code == 0; });
  const auto daemon = pid_of("n1");
  ASSERT_GT(daemon, 1);
  ::kill(daemon, SIGKILL);
  EXPECT_EQ(wait_for_state(job, "completed").at("attempts"), 2);
  EXPECT_TRUE(contains(sullae({"jobs", "show", job}).standard_output, "1: node lost: "))
      << sullae({"jobs", "show", job}).standard_output;
}

}  // namespace
}  // namespace sullae::cluster

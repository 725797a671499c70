// Jobs of a Slurm that this test starts, by the commands that users type.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include "cluster/slurm/slurm_fixture.h"
#include "support/content_of.h"

namespace sullae::cluster {
namespace {

TEST_F(SlurmTest, JobsGoFromTheirBeginningToTheirEnd) {
  // Nothing that could never run is submitted.
  EXPECT_TRUE(contains(error_of({"submit", "--nodes", "4", "true"}),
                       "4 nodes of 1 processor (--ranks-per-node × --cpus-per-rank) asked for, and "
                       "partition low has 3 such"));
  EXPECT_TRUE(contains(error_of({"submit", "--min-nodes", "1", "--max-nodes", "9", "true"}),
                       "9 nodes of 1 processor"));
  EXPECT_TRUE(contains(error_of({"submit", "--cpus-per-rank", "3", "true"}),
                       "1 node of 3 processors (--ranks-per-node × --cpus-per-rank) asked for, and "
                       "partition low has 0 such"));
  EXPECT_TRUE(
      contains(error_of({"submit", "--after", "nobody", "true"}), "there is no job 'nobody'"));
  EXPECT_TRUE(contains(error_of({"submit", "--mount", "data=/nowhere", "true"}),
                       "--mount data=/nowhere: there is no such folder"));
  EXPECT_TRUE(contains(error_of({"submit", "--engine-option", "--array=1-3", "true"}),
                       "--engine-option --array=1-3: is Sullae's own"));
  EXPECT_TRUE(contains(error_of({"submit"}), "no program given"));
  EXPECT_TRUE(contains(sullae({"jobs", "list"}).standard_output, "no jobs"));

  // A job of two nodes with two ranks each, one that waits for it, one that waits for a job that
  // fails.
  const std::string first = submit(
      {"--name", "first", "--nodes", "2", "--ranks-per-node", "2", "--env", "A=b c", "--mount",
       "here=" + work_.path().string(), "--", "sh", "-c",
       "echo rank $SULLAE_RANK of $SULLAE_SIZE, $A; sleep 1; touch {here}/done-$SULLAE_RANK"});
  EXPECT_EQ(first, "first-1");
  const std::string second =
      submit({"--name", "second", "--after", first, "sh", "-c", "test -e done-3"});
  const std::string failing = submit({"--name", "failing", "sh", "-c", "echo failing; exit 3"});
  const std::string never = submit({"--name", "never", "--after", failing, "touch", "never"});
  const std::string cancelled =
      submit({"--name", "cancelled", "--min-nodes", "1", "--max-nodes", "2", "sleep", "1000"});
  wait_for_state(first, "completed");
  const auto log = log_of("1");
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_TRUE(contains(log, fmt::format("[{0}] rank {0} of 4, b c\n", rank))) << log;
  const Json seen = show(first);
  EXPECT_EQ(seen.at("exit_code"), 0);
  EXPECT_EQ(seen.at("attempts"), 1);
  wait_for_state(second, "completed");
  EXPECT_EQ(wait_for_state(failing, "failed").at("exit_code"), 3);
  EXPECT_TRUE(contains(show(failing).at("reason"), "ended with exit code 3"))
      << show(failing).dump();
  EXPECT_TRUE(contains(wait_for_state(never, "cancelled").at("reason"), "did not end well"));
  EXPECT_TRUE(contains(testing::content_of(cluster() + "/jobs/" + never + "/result.json"),
                       "did not end well"))
      << "Slurm forgets it";
  EXPECT_FALSE(std::filesystem::exists(work_.path() / "never"));

  // Watching gives the job's exit code, logs of one node that node's ranks alone.
  EXPECT_EQ(sullae({"jobs", "watch", failing}).exit_code, 3);
  EXPECT_TRUE(contains(sullae({"jobs", "logs", "-f", failing}).standard_output, "[0] failing"));
  const auto shown = sullae({"jobs", "show", first}).standard_output;
  EXPECT_TRUE(contains(shown, cluster() + "/jobs/first-1/attempts/1/log")) << shown;
  const auto of_node = sullae({"jobs", "logs", first, "--node", "n1"}).standard_output;
  EXPECT_EQ(std::ranges::count(of_node, '\n'), 2) << of_node;

  // Cancelled while it runs; a job that is over can be begun again, and not cancelled.
  wait_for(cancelled, [](const Json& job) { return job.at("state") == "running"; });
  EXPECT_EQ(sullae({"jobs", "cancel", cancelled}).exit_code, 0);
  wait_for_state(cancelled, "cancelled");
  EXPECT_TRUE(contains(error_of({"cancel", cancelled}), "is over: cancelled"));
  EXPECT_TRUE(contains(error_of({"resize", first, "--max", "2"}), "is over: completed"));
  EXPECT_EQ(sullae({"jobs", "retry", failing}).exit_code, 0);
  wait_for(failing,
           [](const Json& job) { return job.at("state") == "failed" && job.at("attempts") == 2; });
  EXPECT_TRUE(contains(error_of({"logs", first, "--node", "n9"}),
                       "had no process on node n9: it ran on n"));

  // What the end of the cluster ends is cancelled, and can be looked at afterwards.
  const std::string endless = submit({"--name", "endless", "sleep", "1000"});
  wait_for(endless, [](const Json& job) { return job.at("state") == "running"; });
  EXPECT_TRUE(contains(sullae({"cluster", "status"}).standard_output, "slurmctld run"));
  EXPECT_EQ(sullae({"cluster", "down"}).exit_code, 0);
  is_up_ = false;
  EXPECT_EQ(show(endless).at("state"), "cancelled");
  EXPECT_EQ(show(first).at("state"), "completed");
  // Also of what has left no result itself.
  EXPECT_TRUE(contains(show(never).at("reason"), "did not end well")) << show(never).dump();
  EXPECT_TRUE(contains(sullae({"jobs", "list"}).standard_output, never));
  EXPECT_TRUE(contains(error_of({"submit", "true"}),
                       "SLURM_CONF names " + cluster() + "/slurm.conf, which is not there"));
  EXPECT_TRUE(testing::vanish(cluster()));
}

TEST_F(SlurmTest, SubmitsOfClientsThatAreKilledAreNeitherLostNorDoubled) {
  constexpr int kSubmits = 200;
  constexpr int kMostKills = 3;  // of one submit
  const auto client_of = [&](int i) {
    return Words{sullae_program(),  "jobs",  "submit", "--name", "s", "--idempotency-key",
                 std::to_string(i), "sleep", "1000"};
  };
  // What one takes differs among machines, and grows with their load.
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run_program(client_of(0), environment()).exit_code, 0);
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;

  std::mt19937 random(7);
  std::uniform_real_distribution<double> share(0, 1.2);
  int kills = 0;
  for (int i = 1; i < kSubmits; ++i) {
    for (int tries = 0;; ++tries) {
      Program client(client_of(i), environment());
      if (tries < kMostKills) {
        std::this_thread::sleep_for(share(random) * whole);
        client.signal(SIGKILL);
      }
      const int exit_code = client.wait().exit_code;
      if (exit_code == 0) break;
      ASSERT_EQ(exit_code, 128 + SIGKILL);
      ++kills;
    }
  }
  EXPECT_GT(kills, 0);
  const auto queue =
      run_program({"squeue", "--noheader", "--states=all", "--format=%k"}, environment())
          .standard_output;
  std::map<std::string, int> of_job;
  std::istringstream lines(queue);
  for (std::string line; std::getline(lines, line);) ++of_job[line];
  EXPECT_EQ(of_job.size(), static_cast<std::size_t>(kSubmits));
  for (const auto& [mark, count] : of_job) EXPECT_EQ(count, 1) << mark;
  // All of them with one question to Slurm.
  const TemporaryDirectory programs;
  std::ofstream(programs.path() / "squeue") << "#!/bin/sh\necho >> " << programs.path().string()
                                            << "/questions\nexec /usr/bin/squeue \"$@\"\n";
  std::filesystem::permissions(programs.path() / "squeue", std::filesystem::perms::owner_all);
  auto variables = environment();
  variables["PATH"] = programs.path().string() + ":" + std::getenv("PATH");
  const auto listed = run_program({sullae_program(), "jobs", "list", "--json"}, variables);
  EXPECT_EQ(Json::parse(listed.standard_output).size(), static_cast<std::size_t>(kSubmits));
  EXPECT_EQ(testing::content_of(programs.path() / "questions"), "\n");
}

// The samples that an elastic_program's workers have taken, by how often.
std::map<int, int> samples_in(const std::filesystem::path& folder) {
  std::map<int, int> samples;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with("samples-")) continue;
    std::ifstream file(entry.path());
    std::int64_t when = 0;
    for (int step = 0, first = 0, last = 0, generation = 0;
         file >> step >> first >> last >> generation >> when;) {
      for (int sample = first; sample < last; ++sample) ++samples[sample];
    }
  }
  return samples;
}

std::vector<double> weights_in(const std::filesystem::path& folder) {
  std::ifstream file(folder / "weights");
  return {std::istream_iterator<double>(file), {}};
}

TEST_F(SlurmTest, AnElasticJobGivesNodesToAHighOneAndLosesNoStep) {
  constexpr int kSteps = 700;
  constexpr int kBatch = 12;
  const auto steps = std::to_string(kSteps);
  start_nodes();
  const TemporaryDirectory out;
  const auto low =
      submit({"--name", "low", "--min-nodes", "1", "--max-nodes", "3", "--cpus-per-rank", "2",
              "--priority", "low", ELASTIC_PROGRAM, out.path().string(), steps, "--pause", "100"});
  wait_for_nodes(low, 3);
  EXPECT_TRUE(contains(error_of({"retry", low}), "what is over can be begun again"));

  // It is preempted on two nodes, and has them again when the other is done.
  const auto high = submit({"--name", "high", "--nodes", "2", "--cpus-per-rank", "2", "--priority",
                            "high", "sleep", "2"});
  wait_for_state(high, "completed");
  wait_for_nodes(low, 3);

  // Resized.
  EXPECT_EQ(sullae({"jobs", "resize", low, "--max", "2"}).exit_code, 0);
  wait_for_nodes(low, 2);
  EXPECT_EQ(sullae({"jobs", "resize", low, "--max", "3"}).exit_code, 0);
  const Json whole = wait_for_nodes(low, 3);

  // The daemon of one of its nodes is killed: Slurm gives the node up, repairs it, and the job has
  // it, or another one, again.
  const auto node = whole.at("hosts").at(0).get<std::string>();
  pid_t daemon = 0;
  std::ifstream(directory_.path() / "run" / (node + ".pid")) >> daemon;
  ASSERT_GT(daemon, 1);
  ::kill(daemon, SIGKILL);

  EXPECT_EQ(wait_for_state(low, "completed").at("attempts"), 1);
  const auto samples = samples_in(out.path());
  EXPECT_EQ(samples.size(), static_cast<std::size_t>(kSteps * kBatch));
  for (const auto& [sample, times] : samples) EXPECT_EQ(times, 1) << sample;
  const auto log = log_of(low);
  EXPECT_TRUE(contains(log, "is taken back: its ranks go after the step")) << log;

  // Which of its workers was rank 0 at first is as Slurm's nodes came.
  std::string seed;
  std::ifstream(out.path() / "seed") >> seed;
  const TemporaryDirectory alone;
  run_program({sullae_program(), "run", "-np", "1", ELASTIC_PROGRAM, alone.path().string(), steps,
               "--seed", seed});
  const auto expected = weights_in(alone.path());
  const auto weights = weights_in(out.path());
  ASSERT_FALSE(expected.empty());
  ASSERT_EQ(weights.size(), expected.size());
  // The last is the buffer that counts forward passes.
  for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(weights[i], expected[i], 1e-10) << i;
}

TEST_F(SlurmTest, AFixedJobThatIsPreemptedBeginsAgain) {
  start_nodes();
  const auto low = submit(
      {"--name", "low", "--nodes", "3", "--cpus-per-rank", "2", "--priority", "low", "sh", "-c",
       "echo attempt $SULLAE_JOB_ATTEMPT; test $SULLAE_JOB_ATTEMPT = 2 || sleep 1000"});
  wait_for_nodes(low, 3);
  // Its ranks, on a loaded machine, begin some time after that.
  wait_for(low, [&](const Json&) { return contains(log_of(low), "[0] attempt 1"); });
  const auto high = submit({"--name", "high", "--nodes", "1", "--priority", "high", "sleep", "1"});
  wait_for_state(high, "completed");
  EXPECT_EQ(wait_for_state(low, "completed").at("attempts"), 2);
  const auto shown = sullae({"jobs", "show", low}).standard_output;
  EXPECT_TRUE(contains(shown, "1: preempted: ")) << shown;
  EXPECT_TRUE(
      contains(sullae({"jobs", "logs", low, "--attempt", "1"}).standard_output, "[0] attempt 1"));
  EXPECT_TRUE(contains(log_of(low), "[0] attempt 2"));
}

TEST_F(SlurmTest, AnElasticJobThatLosesAllItsNodesBeginsAgain) {
  start_nodes();
  const TemporaryDirectory out;
  // The first attempt would go on for half an hour.
  const auto program =
      fmt::format("exec {} {} $((SULLAE_JOB_ATTEMPT == 1 ? 20000 : 50)) --pause 100",
                  ELASTIC_PROGRAM, out.path().string());
  const auto low = submit({"--name", "low", "--min-nodes", "1", "--max-nodes", "3",
                           "--cpus-per-rank", "2", "--priority", "low", "sh", "-c", program});
  wait_for_nodes(low, 3);
  // Before its first step it would have nothing to lose, and would wait for other nodes in the same
  // attempt.
  wait_for(low, [&](const Json&) { return !samples_in(out.path()).empty(); });
  const auto high = submit(
      {"--name", "high", "--nodes", "3", "--cpus-per-rank", "2", "--priority", "high", "true"});
  wait_for_state(high, "completed");
  EXPECT_EQ(wait_for_state(low, "completed").at("attempts"), 2);
  const auto shown = sullae({"jobs", "show", low}).standard_output;
  EXPECT_TRUE(contains(shown, "1: preempted: node n")) << shown;
}

TEST_F(SlurmTest, AClusterThatDoesNotAnswerIsNamedWithTheRemedy) {
  pid_t controller = 0;
  std::ifstream(directory_.path() / "run" / "slurmctld.pid") >> controller;
  ASSERT_GT(controller, 1);
  ::kill(controller, SIGSTOP);
  auto variables = environment();
  variables["SULLAE_CLUSTER_TIMEOUT"] = "1";
  const auto silent = run_program({sullae_program(), "jobs", "submit", "true"}, variables);
  ::kill(controller, SIGCONT);
  EXPECT_EQ(silent.exit_code, 1);
  EXPECT_TRUE(
      contains(silent.standard_error, "squeue did not answer within 1 s (SULLAE_CLUSTER_TIMEOUT)"))
      << silent.standard_error;
  EXPECT_TRUE(contains(sullae({"jobs", "list"}).standard_output, "no jobs"))
      << "nothing is half-submitted";
  EXPECT_TRUE(contains(sullae({"cluster", "up"}).standard_error,
                       "a cluster runs in " + cluster() + " already"));
}

// Whoever is patient with a cluster that is busy is not with one that is not there.
TEST(Slurm, ThatIsNotInstalledIsNotWaitedFor) {
  const TemporaryDirectory directory;
  const auto result = run_program(
      {sullae_program(), "jobs", "submit", "--watch", "--idempotency-key", "nightly", "true"},
      {{"PATH", "/nowhere"},
       {"SULLAE_CLUSTER", directory.path()},
       {"SULLAE_JOBS", directory.path()}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.standard_error, "squeue is not installed: there is no Slurm here"))
      << result.standard_error;
}

TEST(Slurm, IsAskedToBeginAJobLater) {
  const TemporaryDirectory directory;
  const auto dry_run = [&](const std::string& begin) {
    return run_program({sullae_program(), "jobs", "submit", "--dry-run", "--begin", begin, "true"},
                       {{"SULLAE_CLUSTER", directory.path()}, {"SULLAE_JOBS", directory.path()}})
        .standard_output;
  };
  EXPECT_TRUE(contains(dry_run("2026-11-01T02:00:00+0900"), "--begin=now+0"));
  const auto later = dry_run("2999-01-01");
  EXPECT_TRUE(contains(later, "begin = '2999-01-01'")) << later;
  EXPECT_GT(std::stoll(later.substr(later.find("--begin=now+") + 12)), 1'000'000'000);
}

}  // namespace
}  // namespace sullae::cluster

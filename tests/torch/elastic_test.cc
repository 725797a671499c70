// Ranks come and go, and what is trained is what one process would have trained: each sample once,
// each step whole.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/content_of.h"
#include "support/errors.h"
#include "support/program.h"
#include "support/temporary_directory.h"
#include "support/two_networks.h"
#include "support/wait_until.h"

namespace sullae::testing {
namespace {

constexpr int kSteps = 60;
constexpr int kBatch = 12;

struct Trained {
  ProgramResult result;
  std::vector<double> weights;  // and buffers
  /// By sample: how often it was part of a step.
  std::map<int, int> samples;
  std::vector<std::string> changes;
  std::vector<int> worlds;  // ranks that have taken a step in each
};

Trained train(std::vector<std::string> flags, const std::vector<std::string>& words = {},
              std::map<std::string, std::string> environment = {}) {
  const TemporaryDirectory folder;
  flags.insert(flags.begin(), {sullae_program(), "run"});
  flags.insert(flags.end(), {ELASTIC_PROGRAM, folder.path().string(), std::to_string(kSteps)});
  flags.insert(flags.end(), words.begin(), words.end());
  environment.try_emplace("OMP_NUM_THREADS", "1");
  Trained trained{.result = run_program(flags, environment)};
  std::ifstream weights(folder.path() / "weights");
  for (double weight = 0; weights >> weight;) trained.weights.push_back(weight);
  std::map<int, std::set<std::string>> workers;  // by generation
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (!entry.path().filename().string().starts_with("samples-")) continue;
    std::ifstream samples(entry.path());
    std::int64_t when = 0;
    for (int step = 0, first = 0, last = 0, generation = 0;
         samples >> step >> first >> last >> generation >> when;) {
      for (int sample = first; sample < last; ++sample) ++trained.samples[sample];
      workers[generation].insert(entry.path().filename().string());
    }
  }
  for (const auto& [generation, names] : workers)
    trained.worlds.push_back(static_cast<int>(names.size()));
  std::ifstream changes(folder.path() / "changes");
  for (std::string line; std::getline(changes, line);) trained.changes.push_back(line);
  EXPECT_TRUE(vanish(folder.path().string()));
  return trained;
}

const std::vector<double>& of_one_process() {
  static const std::vector<double> weights = train({"-np", "1"}).weights;
  return weights;
}

const std::vector<std::string> kRecipe = {"--recipe", "yes"};

void expect_undisturbed(const Trained& trained,
                        const std::vector<double>& expected = of_one_process(),
                        int forwards_a_step = 1) {
  EXPECT_EQ(trained.result.exit_code, 0) << trained.result.standard_error;
  EXPECT_EQ(trained.samples.size(), std::size_t{kSteps} * kBatch);
  for (const auto& [sample, count] : trained.samples) EXPECT_EQ(count, 1) << sample;
  ASSERT_EQ(trained.weights.size(), expected.size());
  double difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    difference = std::max(difference, std::abs(trained.weights[i] - expected[i]));
  EXPECT_LT(difference, 1e-10);
  EXPECT_EQ(trained.weights.back(), forwards_a_step * kSteps);  // of steps that were taken
}

const std::vector<std::string> kElastic = {"-np", "3", "--min-np", "1", "--cooldown", "0.1"};

TEST(Elastic, WithoutAnyChangeIsAnyTraining) {
  expect_undisturbed(train({"-np", "3"}));
  const auto trained = train(kElastic);
  expect_undisturbed(trained);
  EXPECT_EQ(trained.changes, std::vector<std::string>{"0 3 0 "});
}

class Losses : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(OverEveryTransport, Losses, ::testing::Values("shm", "ucx"),
                         [](const auto& test) { return test.param; });

TEST_P(Losses, OfAnyRankCostNoStep) {
  const std::map<std::string, std::string> transport{{"SULLAE_TRANSPORT", GetParam()}};
  for (const char* rank : {"0", "2"}) {
    const auto trained =
        train(kElastic, {"--pause", "10", "--at", fmt::format("{}:20:kill", rank)}, transport);
    expect_undisturbed(trained);
    ASSERT_GE(trained.changes.size(), 2U);
    EXPECT_TRUE(trained.changes[1].starts_with("1 2 ")) << trained.changes[1];
    EXPECT_TRUE(contains(trained.result.standard_error, fmt::format("worker {} on ", rank)));
    EXPECT_TRUE(contains(trained.result.standard_error, "was killed by signal 9 (Killed)"));
  }
  // Two at once, and down to one. The launcher hears of them in any order, and of what they did to
  // others, and tells all.
  const auto two =
      train(kElastic, {"--pause", "10", "--at", "0:20:kill", "--at", "1:20:kill"}, transport);
  expect_undisturbed(two);
  for (const char* worker : {"worker 0 on ", "worker 1 on "})
    EXPECT_TRUE(contains(two.result.standard_error, worker)) << two.result.standard_error;
  // And the ones that took their places.
  expect_undisturbed(train(kElastic,
                           {"--pause", "30", "--at", "1:5:kill", "--at", "3:30:kill", "--at",
                            "0:31:kill", "--at", "4:45:kill"},
                           transport));
}

// With losses that are scaled, several backward passes a step, and a learning rate that falls, and
// parts of a batch that are not alike.
TEST_P(Losses, FromAllRanksToOneAndToAllAgainAreOneTraining) {
  const std::map<std::string, std::string> transport{{"SULLAE_TRANSPORT", GetParam()}};
  const auto expected = train({"-np", "1"}, kRecipe).weights;
  for (const int ranks : {4, 5}) {
    // Nobody comes before the others are gone.
    std::vector<std::string> words = {"--pause", "10", "--hold", fmt::format("40:{}", ranks)};
    words.insert(words.end(), {"--at", "3:10:kill"});
    for (int worker = 0; worker < ranks; ++worker) {
      if (worker != 1 && worker != 3)
        words.insert(words.end(), {"--at", fmt::format("{}:20:kill", worker)});
    }
    words.insert(words.end(), kRecipe.begin(), kRecipe.end());
    const auto trained = train({"-np", std::to_string(ranks), "--min-np", "1", "--cooldown", "4:4"},
                               words, transport);
    expect_undisturbed(trained, expected, /*forwards_a_step=*/2);
    ASSERT_GE(trained.worlds.size(), 4U);
    EXPECT_EQ(trained.worlds[0], ranks);
    EXPECT_EQ(trained.worlds[1], ranks - 1);
    EXPECT_EQ(std::ranges::count(trained.worlds, 1), 1);
    EXPECT_EQ(trained.worlds.back(), ranks);
  }
}

// Worker 0 has what the newcomer needs, and dies while it gives it: worker 2 has it too.
TEST_P(Losses, OfWhoGivesItsStateCostNoState) {
  const auto trained =
      train(kElastic, {"--pause", "30", "--at", "1:5:kill", "--at", "0:5:sync", "--hold", "50:3"},
            {{"SULLAE_TRANSPORT", GetParam()}});
  expect_undisturbed(trained);
  EXPECT_TRUE(contains(trained.result.standard_error, "worker 0 on "))
      << trained.result.standard_error;
}

TEST(Elastic, WhoIsAskedToGoGoesAfterTheStep) {
  const auto trained = train(kElastic, {"--pause", "10", "--at", "1:20:term"});
  expect_undisturbed(trained);
  EXPECT_TRUE(contains(trained.result.standard_error, "generation 1: 2 ranks (worker 1 on "));
  EXPECT_TRUE(contains(trained.result.standard_error, " leaves) after "));
}

TEST(Elastic, ASamplerGoesOnWithTheRestOfItsEpoch) {
  const auto trained = train({"-np", "4", "--min-np", "1", "--cooldown", "0.1"},
                             {"--sampler", "yes", "--pause", "20", "--at", "3:7:kill", "--at",
                              "0:20:kill", "--at", "4:21:kill", "--at", "1:40:term"});
  expect_undisturbed(trained);
  EXPECT_GE(trained.changes.size(), 3U);
}

// A rank is killed, the first rank 0, and another takes its place, over and over. What is made from
// a world is made anew.
TEST(Elastic, TwentyChangesInAnEpochUseEachSampleOnce) {
  std::vector<std::string> words = {"--sampler", "yes", "--sets", "yes"};
  int step = 1;
  for (const int worker : {0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}) {
    words.insert(words.end(), {"--at", fmt::format("{}:{}:kill", worker, step), "--hold",
                               fmt::format("{}:3", step + 2)});
    step += 3;
  }
  const auto trained = train(kElastic, words);
  expect_undisturbed(trained);
  // A loss and a newcomer may be one change.
  EXPECT_GT(trained.worlds.size(), 20U) << trained.result.standard_error;
}

// What cannot be started in its place is no reason for the others to end.
TEST(Elastic, AProgramThatIsTakenAwayCostsNobodyElse) {
  const TemporaryDirectory folder;
  const auto script = folder.path() / "program.sh";
  std::ofstream(script)
      << "#!/bin/sh\n[ $SULLAE_ELASTIC_WORKER = 0 ] && (sleep 1; mv $0 $0.away) &\n"
      << "exec " << ELASTIC_PROGRAM << " \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const auto result =
      run_program({sullae_program(), "run", "-np", "3", "--min-np", "1", "--cooldown", "0.1",
                   script, folder.path(), "80", "--pause", "50", "--at", "1:40:kill"},
                  {{"OMP_NUM_THREADS", "1"}});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_error, "cannot be run")) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_error, "before it was ready; another one starts in"));
}

TEST(Elastic, AnExceptionOfOneRankIsItsOwn) {
  const auto trained = train(kElastic, {"--pause", "10", "--at", "1:20:throw"});
  expect_undisturbed(trained);
  EXPECT_TRUE(contains(trained.result.standard_error, "as it was told to"));
}

TEST(Elastic, WaitsBelowTheLeast) {
  const auto trained = train({"-np", "2", "--min-np", "2", "--cooldown", "0.5"},
                             {"--pause", "5", "--at", "0:20:kill"});
  expect_undisturbed(trained);
  EXPECT_TRUE(contains(trained.result.standard_error, "1 of at least 2 ranks are left"));
  ASSERT_EQ(trained.changes.size(), 2U);  // of rank 0, who was rank 1
  EXPECT_TRUE(trained.changes[1].starts_with("1 2 "));
}

TEST(Elastic, GrowsWithItsHosts) {
  const TemporaryDirectory folder;
  const auto hosts = (folder.path() / "hosts").string();
  std::ofstream(hosts) << "localhost:1\n";
  // The script gives one slot more each time.
  const auto script = fmt::format(
      "cat {0}; n=$(($(cut -d: -f2 {0}) + 1)); [ $n -le 3 ] && echo localhost:$n > {0}; true",
      hosts);
  const auto trained =
      train({"-np", "1", "--max-np", "3", "--discover", script}, {"--hold", "30:3"});
  expect_undisturbed(trained);
  ASSERT_GE(trained.changes.size(), 2U);
  EXPECT_TRUE(contains(trained.changes.back(), " 3 "));
}

// `localhost` and `127.0.0.1` pose as two hosts: the second is added, and then the first, with rank
// 0, is taken away.
TEST(Elastic, HostsComeAndGoAsTheUserSays) {
  const TemporaryDirectory folder;
  const std::map<std::string, std::string> environment = {
      {"XDG_RUNTIME_DIR", folder.path().string()}, {"OMP_NUM_THREADS", "1"}};
  Program program(
      {sullae_program(), "run", "-np", "1", "--max-np", "2", "-H", "localhost:1", ELASTIC_PROGRAM,
       folder.path().string(), "200", "--pause", "30", "--hold", "20:2"},
      environment);
  const auto job = std::to_string(program.pid());
  const auto hosts = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {sullae_program(), "hosts"});
    return run_program(words, environment);
  };
  const auto has_done_steps = [&](int worker) {
    const auto file = folder.path() / fmt::format("samples-{}", worker);
    std::error_code error;
    return std::filesystem::file_size(file, error) > 0 && !error;
  };
  wait_until([&] { return has_done_steps(0); });
  EXPECT_EQ(hosts({"list"}).standard_output, job + "  localhost:1\n");
  EXPECT_EQ(hosts({"add", job, "127.0.0.1:1"}).exit_code, 0);
  wait_until([&] { return has_done_steps(1); });
  EXPECT_EQ(hosts({"remove", job, "localhost"}).exit_code, 0);
  EXPECT_EQ(hosts({"list", job}).standard_output, "127.0.0.1:1\n");
  const auto twice = hosts({"remove", job, "localhost"});
  EXPECT_EQ(twice.standard_error, "sullae hosts: localhost is none of job " + job + "'s hosts\n");
  const auto result = program.wait();
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_TRUE(contains(result.standard_error, "generation 2: 1 rank (worker 0 on"))
      << result.standard_error;
  std::map<int, int> samples;
  for (const int worker : {0, 1}) {
    std::ifstream lines(folder.path() / fmt::format("samples-{}", worker));
    std::int64_t when = 0;
    for (int step = 0, first = 0, last = 0, generation = 0;
         lines >> step >> first >> last >> generation >> when;) {
      for (int sample = first; sample < last; ++sample) ++samples[sample];
    }
  }
  EXPECT_EQ(samples.size(), 200U * kBatch);
  for (const auto& [sample, times] : samples) EXPECT_EQ(times, 1) << sample;
  EXPECT_EQ(hosts({"list"}).standard_output, "");
}

// The link goes down without a word: whoever is beyond it is given up, and ends.
TEST_F(TwoNetworks, AHostThatCannotBeReachedIsGivenUp) {
  Program program(words({"-H", a_ + ":1," + b_ + ":1", "--min-np", "1"},
                        {ELASTIC_PROGRAM, directory_.path().string(), "300", "--pause", "30"}),
                  over_tcp());
  const auto steps = [&] {
    return std::ranges::count(content_of(directory_.path() / "samples-0"), '\n');
  };
  wait_until([&] { return steps() > 20; });
  EXPECT_EQ(run_program({"ip", "-n", b_, "link", "set", "v1", "down"}).exit_code, 0);
  const auto result = program.wait();
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  // Whether the launcher gives it up, or its own end is heard of first.
  EXPECT_TRUE(contains(result.standard_error, "generation 0: worker 1 on " + b_))
      << result.standard_error;
  std::ifstream changes(directory_.path() / "changes");
  std::string line;
  std::getline(changes, line);
  std::getline(changes, line);
  EXPECT_TRUE(line.starts_with("1 1 ")) << line << result.standard_error;
  EXPECT_EQ(steps(), 300);
  EXPECT_TRUE(vanish(directory_.path().string()));
}

TEST(Elastic, MistakesAreTold) {
  const auto nobody =
      train(kElastic, {"--at", "0:5:throw", "--at", "1:5:throw", "--at", "2:5:throw"});
  EXPECT_EQ(nobody.result.exit_code, 134);
  EXPECT_TRUE(contains(nobody.result.standard_error, "no rank is left of the world that had"));
  const auto start =
      run_program({sullae_program(), "run", "-np", "2", "--min-np", "1", "sh", "-c", "exit 3"});
  EXPECT_EQ(start.exit_code, 3);
  EXPECT_TRUE(contains(start.standard_error, "ended with exit code 3 before it was ready"));
  const auto order = run_program({sullae_program(), "run", "-np", "2", "--min-np", "3", "true"});
  EXPECT_TRUE(contains(order.standard_error, "--min-np 3 with -np 2: expected at most as many"));
  const auto script = run_program(
      {sullae_program(), "run", "-np", "1", "--max-np", "2", "--discover", "exit 7", "true"});
  EXPECT_TRUE(contains(script.standard_error, "--discover 'exit 7' ended with exit code 7"));
  const auto cooldown = run_program(
      {sullae_program(), "run", "-np", "1", "--min-np", "1", "--cooldown", "5:1", "true"});
  EXPECT_TRUE(contains(cooldown.standard_error, "--cooldown 5:1: expected FIRST not above LAST"));
  const auto limits = [&](std::vector<std::string> flags, const std::string& of_program) {
    return train(std::move(flags), {"--limits", of_program}).result.standard_error;
  };
  EXPECT_TRUE(contains(limits(kElastic, "2:4"),
                       "elastic::run: this program trains with 2 to 4 ranks, and the job may have "
                       "1 to 3: sullae run --min-np 2 --max-np 3"));
  EXPECT_TRUE(
      contains(limits({"-np", "2"}, "3:0"),
               "elastic::run: this program trains with 3 ranks or more, and the job has 2"));
  EXPECT_TRUE(contains(limits({"-np", "1"}, "3:2"),
                       "elastic::run: {.min = 3, .max = 2}: expected at least 1, and max not"));
  EXPECT_EQ(limits(kElastic, "1:3"), "");
  const auto slots = run_program({sullae_program(), "hosts", "remove", "1", "a:2"});
  EXPECT_TRUE(contains(slots.standard_error,
                       "remove a:2: hosts go with all their slots: expected names alone"));
}

TEST(Restarts, StartAJobAgain) {
  const TemporaryDirectory folder;
  const auto mark = (folder.path() / "tries").string();
  const auto result =
      run_program({sullae_program(), "run", "-np", "1", "--restarts", "2", "sh", "-c",
                   fmt::format("echo x >> {0}; [ $(wc -l < {0}) -ge 3 ]", mark)});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(contains(result.standard_error, "starting the job again (2 of 2 restarts)"));
  const auto failed =
      run_program({sullae_program(), "run", "-np", "1", "--restarts", "1", "false"});
  EXPECT_EQ(failed.exit_code, 1);
}

}  // namespace
}  // namespace sullae::testing

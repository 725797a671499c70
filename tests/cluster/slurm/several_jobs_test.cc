// Several jobs of one cluster.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cluster/slurm/slurm_fixture.h"

namespace sullae::cluster {
namespace {

TEST_F(SlurmTest, ThreeJobsRunAtOnceAndShareNothing) {
  // None ends before all have begun.
  const auto program = [](int number) {
    return fmt::format(
        "echo job {}; touch begun-{}; until [ -e begun-1 -a -e begun-2 -a -e begun-3 ]; do sleep "
        "0.1; done; exit {}",
        number, number, number - 1);
  };
  const std::vector<std::string> jobs = {
      submit({"--name", "a", "--nodes", "1", "--cpus-per-rank", "2", "sh", "-c", program(1)}),
      submit({"--name", "b", "--nodes", "1", "--cpus-per-rank", "2", "sh", "-c", program(2)}),
      submit({"--name", "c", "--min-nodes", "1", "--max-nodes", "1", "--cpus-per-rank", "2", "sh",
              "-c", program(3)})};
  for (int i = 0; i < 3; ++i) {
    const auto& job = jobs[static_cast<std::size_t>(i)];
    const auto seen = wait_for_state(job, i == 0 ? "completed" : "failed");
    EXPECT_EQ(seen.at("exit_code"), i);
    const auto log = log_of(job);
    EXPECT_TRUE(contains(log, fmt::format("[0] job {}\n", i + 1))) << log;
    for (int other = 1; other <= 3; ++other)
      EXPECT_EQ(contains(log, fmt::format("job {}\n", other)), other == i + 1) << log;
  }
}

// At once, where all its nodes are one submission's; else when it has asked for some.
TEST_F(SlurmTest, WhatSlurmRefusesIsNamed) {
  EXPECT_TRUE(
      contains(error_of({"submit", "--nodes", "1", "--engine-option=--partition=nope", "true"}),
               "the cluster has no partition 'nope'"));
  const auto job = submit({"--name", "x", "--min-nodes", "1", "--max-nodes", "2",
                           "--engine-option=--gres=gpu:4", "true"});
  const auto failed = wait_for_state(job, "failed");
  EXPECT_TRUE(contains(failed.dump(), "Slurm refuses the job")) << failed.dump();
}

}  // namespace
}  // namespace sullae::cluster

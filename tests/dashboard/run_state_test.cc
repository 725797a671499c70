#include "dashboard/run_state.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace sullae::testing {
namespace {

using cluster::JobState;
using dashboard::ClusterState;
using dashboard::state_of;

dashboard::Run some_run() {
  dashboard::Run run;
  run.record = {.host = "here", .pid = 17, .job = "mnist-7"};
  return run;
}

ClusterState cluster_with(JobState state) {
  ClusterState cluster;
  cluster.jobs.emplace_back();
  cluster.jobs[0].facts.id = "mnist-7";
  cluster.jobs[0].state = state;
  cluster.jobs[0].reason = "why";
  cluster.places["mnist-7"] = 0;
  return cluster;
}

TEST(RunStates, ItsOwnWordGoesBeforeAll) {
  auto run = some_run();
  run.is_live = true;
  run.record.ended = runs::Ended{.end = runs::End::failed, .reason = "a rank died"};
  const auto cluster = cluster_with(JobState::running);
  const auto state = state_of(run, &cluster, "here");
  EXPECT_EQ(state.text, "failed");
  EXPECT_EQ(state.reason, "a rank died");
  EXPECT_TRUE(state.is_over);
}

TEST(RunStates, ALockSaysThatItRuns) {
  auto run = some_run();
  run.is_live = true;
  EXPECT_EQ(state_of(run, nullptr, "elsewhere").text, "running");
}

TEST(RunStates, OfAJobTheEngineKnows) {
  for (const auto& [state, text, is_over] : {std::tuple{JobState::running, "running", false},
                                             {JobState::pending, "pending", false},
                                             {JobState::preempted, "preempted", true},
                                             {JobState::node_lost, "node lost", true}}) {
    const auto cluster = cluster_with(state);
    const auto found = state_of(some_run(), &cluster, "elsewhere");
    EXPECT_EQ(found.text, text);
    EXPECT_EQ(found.reason, "why");
    EXPECT_EQ(found.is_over, is_over);
  }
}

TEST(RunStates, OneThatWasStoppedGoesOnWhereItsJobDoes) {
  auto run = some_run();
  run.record.ended = runs::Ended{.end = runs::End::stopped};
  EXPECT_EQ(state_of(run, nullptr, "here").text, "stopped");
  auto cluster = cluster_with(JobState::pending);
  EXPECT_EQ(state_of(run, &cluster, "here").text, "pending");
  EXPECT_FALSE(state_of(run, &cluster, "here").is_over);
  cluster = cluster_with(JobState::preempted);
  EXPECT_EQ(state_of(run, &cluster, "here").text, "preempted");
  cluster = cluster_with(JobState::completed);
  EXPECT_EQ(state_of(run, &cluster, "here").text, "stopped") << "the job has, the run has not";
  run.is_live = true;
  EXPECT_EQ(state_of(run, nullptr, "here").text, "running")
      << "its process writes its last words now, or goes on";
}

TEST(RunStates, WithoutAnyWordItWasKilledHereAndIsUnknownElsewhere) {
  const auto here = state_of(some_run(), nullptr, "here");
  EXPECT_EQ(here.text, "killed");
  EXPECT_TRUE(contains(here.reason, "process 17 was ended by a signal"));
  const auto other = state_of(some_run(), nullptr, "elsewhere");
  EXPECT_EQ(other.text, "unknown");
  EXPECT_TRUE(contains(other.reason, "it was started on here"));
  const ClusterState none;
  EXPECT_EQ(state_of(some_run(), &none, "here").text, "killed");
  auto unseen = some_run();
  unseen.is_live.reset();
  EXPECT_EQ(state_of(unseen, nullptr, "here").text, "unknown") << "whose lock cannot be looked at";
  auto unreadable = some_run();
  unreadable.problem = "run.json: …";
  EXPECT_EQ(state_of(unreadable, nullptr, "here").text, "unreadable");
}

}  // namespace
}  // namespace sullae::testing

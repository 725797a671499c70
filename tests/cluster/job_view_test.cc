#include "cluster/job_view.h"

#include <gtest/gtest.h>

#include <ctime>
#include <set>

#include "support/errors.h"

namespace sullae::cluster {
namespace {

using testing::contains;

JobFacts facts_of(int min_nodes, int max_nodes) {
  return {.id = "a-1",
          .job = {.command = {"true"}, .name = "a", .min_nodes = min_nodes, .max_nodes = max_nodes},
          .size = {.min_nodes = min_nodes, .max_nodes = max_nodes},
          .submission = {.number = 1, .time = 100}};
}

EngineJob coordinator(EngineState state, const std::string& reason = {}) {
  return {.id = "7",
          .mark = {.jobs = "0", .id = "a-1", .submission = 1, .role = Role::coordinator},
          .state = state,
          .reason = reason,
          .nodes = 2,
          .hosts = {"n1", "n2"},
          .started = 110};
}

EngineJob workers(EngineState state, int nodes, int submission = 1) {
  return {.id = "8",
          .mark = {.jobs = "0", .id = "a-1", .submission = submission, .role = Role::workers},
          .state = state,
          .nodes = nodes,
          .hosts = std::vector<std::string>(static_cast<std::size_t>(nodes), "n3")};
}

JobView view(const JobFacts& facts, const std::vector<EngineJob>& jobs) {
  return view_of(facts, jobs);
}

TEST(JobView, OfAJobThatNobodySubmitted) {
  JobFacts facts = facts_of(1, 1);
  facts.submission = {};
  const auto seen = view(facts, {});
  EXPECT_EQ(seen.state, JobState::unsubmitted);
  EXPECT_TRUE(contains(seen.reason, "sullae jobs retry a-1"));
  EXPECT_FALSE(is_over(seen.state));
  facts.cancelled = true;
  EXPECT_EQ(view(facts, {}).state, JobState::cancelled);
}

TEST(JobView, OfAFixedJobThatRuns) {
  const auto seen = view(facts_of(2, 2), {coordinator(EngineState::running)});
  EXPECT_EQ(seen.state, JobState::running);
  EXPECT_EQ(seen.nodes, 2);
  EXPECT_EQ(seen.hosts, (std::vector<std::string>{"n1", "n2"}));
  EXPECT_EQ(seen.started, 110);
  EXPECT_EQ(seen.engine_id, "7");
}

TEST(JobView, OfAnIdThatWasGivenAgainIsOfTheNewest) {
  EngineJob old = coordinator(EngineState::cancelled);
  old.submitted = 50;
  EngineJob now = coordinator(EngineState::running);
  now.submitted = 100;
  EXPECT_EQ(view(facts_of(2, 2), {old, now}).state, JobState::running);
  EXPECT_EQ(view(facts_of(2, 2), {now, old}).state, JobState::running);
}

TEST(JobView, OfAnElasticJobCountsWorkersAlone) {
  const JobFacts facts = facts_of(2, 4);
  auto seen = view(facts, {coordinator(EngineState::running), workers(EngineState::running, 3),
                           workers(EngineState::pending, 1), workers(EngineState::running, 9, 2)});
  EXPECT_EQ(seen.nodes, 3);
  EXPECT_EQ(seen.reason, "");
  seen = view(facts, {coordinator(EngineState::running), workers(EngineState::running, 1)});
  EXPECT_EQ(seen.reason, "waits for 1 node");
}

TEST(JobView, OfOneThatWaits) {
  EXPECT_EQ(view(facts_of(1, 1), {coordinator(EngineState::pending, "Resources")}).reason,
            "waits for nodes (Resources)");
  EXPECT_EQ(view(facts_of(1, 1), {coordinator(EngineState::pending, "Dependency")}).reason,
            "waits for another job (Dependency)");
  JobFacts again = facts_of(1, 1);
  again.attempts = 2;
  EXPECT_EQ(view(again, {coordinator(EngineState::pending)}).reason,
            "attempt 2: preempted, or lost its node; goes on in the next one");
  again.last_attempt = {.end = End::timed_out};
  EXPECT_EQ(view(again, {coordinator(EngineState::pending)}).reason,
            "attempt 2: timed out; goes on in the next one");
}

TEST(JobView, TellsEndsApart) {
  const auto after = [](EngineState state, const std::string& reason = {}) {
    return view(facts_of(1, 1), {coordinator(state, reason)});
  };
  EXPECT_EQ(after(EngineState::preempted).state, JobState::preempted);
  EXPECT_EQ(after(EngineState::timed_out).state, JobState::timed_out);
  EXPECT_EQ(after(EngineState::out_of_memory).state, JobState::out_of_memory);
  EXPECT_EQ(after(EngineState::node_lost).state, JobState::node_lost);
  EXPECT_EQ(after(EngineState::past_deadline).state, JobState::past_deadline);
  EXPECT_EQ(after(EngineState::cancelled).state, JobState::cancelled);
  EXPECT_EQ(after(EngineState::cancelled).reason, "by the engine's own command");
  EXPECT_EQ(after(EngineState::failed).state, JobState::failed);
  EXPECT_TRUE(contains(after(EngineState::failed).reason, "slurm-7.log"));
  EXPECT_EQ(after(EngineState::ended).state, JobState::failed)
      << "without a result it has not done its work";
  std::set<std::string> words;
  for (const JobState state : {JobState::failed, JobState::preempted, JobState::timed_out,
                               JobState::out_of_memory, JobState::node_lost, JobState::cancelled})
    words.insert(to_text(state));
  EXPECT_EQ(words.size(), 6U);
}

TEST(JobView, ItsOwnResultIsTheLastWord) {
  JobFacts facts = facts_of(1, 1);
  facts.result = {.end = End::failed, .exit_code = 3, .reason = "rank 0", .started = 5, .ended = 9};
  const auto seen = view(facts, {coordinator(EngineState::cancelled)});
  EXPECT_EQ(seen.state, JobState::failed);
  EXPECT_EQ(seen.reason, "rank 0");
  EXPECT_EQ(seen.exit_code, 3);
  EXPECT_EQ(seen.ended, 9);
}

TEST(JobView, OfWhatTheEngineHasForgotten) {
  JobFacts facts = facts_of(1, 1);
  facts.attempts = 1;
  EXPECT_EQ(view(facts, {}).state, JobState::vanished);
  EXPECT_TRUE(contains(view(facts, {}).reason, "sullae jobs retry a-1"));
  EXPECT_EQ(view(facts, {}).exit_code, 1);
  facts.attempts = 0;
  facts.submission.time = std::time(nullptr);
  EXPECT_EQ(view(facts, {}).state, JobState::pending) << "the engine may not have answered yet";
  facts.attempts = 3;
  facts.submission.first_attempt = 4;
  EXPECT_EQ(view(facts, {}).state, JobState::pending) << "of what was submitted again too";
  facts.cancelled = true;
  EXPECT_EQ(view(facts, {}).state, JobState::cancelled);
}

}  // namespace
}  // namespace sullae::cluster

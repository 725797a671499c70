#include "cluster/worker_plan.h"

#include <gtest/gtest.h>

namespace sullae::cluster {
namespace {

using Asked = std::vector<int>;
using Ids = std::vector<std::string>;

EngineJob workers(const std::string& id, int nodes, EngineState state = EngineState::running,
                  int submission = 1) {
  return {.id = id,
          .mark = {.id = "a-1", .submission = submission, .role = Role::workers},
          .state = state,
          .nodes = nodes};
}

class WorkerPlanTest : public ::testing::Test {
 protected:
  void ask(const std::string& id, int nodes, int connected) {
    plan_.asked(id, nodes);
    for (int i = 0; i < connected; ++i) plan_.admitted(id);
  }
  WorkerPlan plan_{1};
};

TEST_F(WorkerPlanTest, TheLeastIsAskedForAtOnceAndTheOthersOneByOne) {
  EXPECT_EQ(plan_.decide({}, {}, {2, 4}).ask, (Asked{2, 1, 1}));
}

TEST_F(WorkerPlanTest, WhatIsAskedForIsNotAskedForAgain) {
  ask("1", 2, 0);
  ask("2", 1, 0);
  EXPECT_EQ(plan_.decide({}, {}, {2, 3}).ask, Asked{}) << "the engine does not list them yet";
  EXPECT_EQ(plan_.decide({workers("1", 2, EngineState::pending), workers("2", 1)}, {}, {2, 3}).ask,
            Asked{});
}

TEST_F(WorkerPlanTest, WhoIsLostIsReplacedAlsoWhileItsJobLivesOn) {
  ask("1", 2, 2);
  EXPECT_EQ(plan_.decide({workers("1", 2)}, {{"1", 2}}, {2, 2}).ask, Asked{});
  EXPECT_EQ(plan_.decide({workers("1", 2)}, {{"1", 1}}, {2, 2}).ask, (Asked{1}));
  ask("2", 1, 0);
  EXPECT_EQ(plan_.decide({workers("1", 2), workers("2", 1)}, {{"1", 1}}, {2, 2}).ask, Asked{});
}

TEST_F(WorkerPlanTest, ShrinkingCancelsThoseThatWaitFirst) {
  ask("1", 1, 1);
  for (const char* const id : {"2", "3", "4", "5", "6", "7", "8"}) ask(id, 1, 0);
  std::vector<EngineJob> jobs{workers("1", 1)};
  for (const char* const id : {"2", "3", "4", "5", "6", "7", "8"})
    jobs.push_back(workers(id, 1, EngineState::pending));
  auto decision = plan_.decide(jobs, {{"1", 1}}, {1, 2});
  EXPECT_EQ(decision.cancel, (Ids{"8", "7", "6", "5", "4", "3"}));
  EXPECT_EQ(decision.release, 0);
  for (std::size_t i = 2; i < jobs.size(); ++i) jobs[i].state = EngineState::cancelled;
  decision = plan_.decide(jobs, {{"1", 1}}, {1, 2});
  EXPECT_EQ(plan_.fruitless(), 0) << "they were let go";
  EXPECT_TRUE(decision.ended.empty());
  EXPECT_TRUE(decision.ask.empty());
}

TEST_F(WorkerPlanTest, ShrinkingTwiceLetsNobodyGoTwice) {
  ask("1", 2, 2);
  ask("2", 1, 1);
  const std::vector<EngineJob> jobs{workers("1", 2), workers("2", 1)};
  EXPECT_EQ(plan_.decide(jobs, {{"1", 2}, {"2", 1}}, {1, 1}).release, 2);
  // The launcher has let one of each go; their jobs are still listed.
  EXPECT_EQ(plan_.decide(jobs, {{"1", 1}}, {1, 1}).release, 0);
  EXPECT_EQ(plan_.decide(jobs, {{"1", 1}}, {1, 1}).ask, Asked{});
}

TEST_F(WorkerPlanTest, JobsOfAnAttemptBeforeAreCancelled) {
  const auto decision = plan_.decide({workers("9", 1), workers("8", 1, EngineState::preempted),
                                      workers("7", 1, EngineState::running, 2)},
                                     {}, {1, 1});
  EXPECT_EQ(decision.cancel, (Ids{"9"}));
  EXPECT_EQ(decision.ask, (Asked{1}));
}

TEST_F(WorkerPlanTest, JobsThatEndByThemselvesWithoutAWordAreCounted) {
  for (int i = 0; i < 3; ++i) {
    const auto id = std::to_string(i);
    ask(id, 1, 0);
    EXPECT_EQ(plan_.decide({workers(id, 1, EngineState::failed)}, {}, {1, 1}).ask, (Asked{1}));
    plan_.decide({workers(id, 1, EngineState::failed)}, {}, {1, 1});
  }
  EXPECT_EQ(plan_.fruitless(), 3);
  ask("3", 1, 0);
  EXPECT_EQ(plan_.decide({workers("3", 1, EngineState::preempted)}, {}, {1, 1}).ended.size(), 1U);
  EXPECT_EQ(plan_.fruitless(), 3) << "that it was preempted is no fault of its own";
  ask("4", 1, 1);
  EXPECT_EQ(plan_.fruitless(), 0);
  EXPECT_TRUE(plan_.is_over("3"));
  EXPECT_FALSE(plan_.is_over("4"));
}

}  // namespace
}  // namespace sullae::cluster

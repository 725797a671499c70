// Schedules, as tables.
#include "parallel/pipeline/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "parallel/pipeline/simulation.h"
#include "support/errors.h"

namespace sullae::pipeline {
namespace {

using sullae::testing::error_of;

std::vector<std::vector<Action>> all_ranks(Schedule schedule, int ranks, int micro_batches,
                                           int chunks) {
  std::vector<std::vector<Action>> actions;
  for (int rank = 0; rank < ranks; ++rank)
    actions.push_back(actions_of(schedule, ranks, rank, micro_batches, chunks));
  return actions;
}

std::string text_of(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions) {
    text += text.empty() ? "" : " ";
    text += action.work == Work::forward ? 'F' : 'B';
    if (action.chunk > 0) text += std::string(static_cast<std::size_t>(action.chunk), '\'');
    text += std::to_string(action.micro_batch);
  }
  return text;
}

TEST(Schedule, GpipeIsAllForwardsThenAllBackwards) {
  EXPECT_EQ(text_of(actions_of(Schedule::gpipe, 4, 2, 3, 1)), "F0 F1 F2 B0 B1 B2");
}

TEST(Schedule, OneForwardOneBackward) {
  const auto text = [](int rank) {
    return text_of(actions_of(Schedule::one_f_one_b, 3, rank, 5, 1));
  };
  EXPECT_EQ(text(0), "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4");
  EXPECT_EQ(text(1), "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4");
  EXPECT_EQ(text(2), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
}

TEST(Schedule, Interleaved) {
  const auto text = [](int rank) {
    return text_of(actions_of(Schedule::interleaved, 2, rank, 4, 2));
  };
  EXPECT_EQ(text(0), "F0 F1 F'0 F'1 F2 B'0 F3 B'1 F'2 B0 F'3 B1 B'2 B'3 B2 B3");
  EXPECT_EQ(text(1), "F0 F1 F'0 B'0 F'1 B'1 F2 B0 F3 B1 F'2 B'2 F'3 B'3 B2 B3");
}

// Everything is done once, after what it needs, and in no more memory and time than promised.
TEST(Schedule, NeverDeadlocksAndKeepsItsPromises) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int micro_batches = 1; micro_batches <= 32; ++micro_batches) {
      const double ideal = (ranks - 1.0) / (micro_batches + ranks - 1.0);
      for (const Schedule schedule :
           {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved}) {
        const int most_chunks = schedule == Schedule::interleaved ? 4 : 1;
        for (int chunks = 1; chunks <= most_chunks; ++chunks) {
          SCOPED_TRACE(::testing::Message() << ranks << " ranks, " << micro_batches
                                            << " micro-batches, " << chunks << " stages each");
          const auto actions = all_ranks(schedule, ranks, micro_batches, chunks);
          for (auto one : actions) {
            std::ranges::sort(one);
            ASSERT_EQ(one.size(), 2U * static_cast<unsigned>(micro_batches * chunks));
            ASSERT_EQ(std::ranges::adjacent_find(one), one.end());
          }
          const auto simulated = simulate(actions, chunks);
          ASSERT_FALSE(simulated.deadlock);
          if (chunks == 1) {
            EXPECT_NEAR(simulated.idle, ideal, 1e-9);
          }
          // With fewer micro-batches than ranks nothing can be gained by going round more often.
          if (chunks > 1 && micro_batches >= ranks) {
            EXPECT_LT(simulated.idle,
                      (ranks - 1.0) / (micro_batches * chunks + ranks - 1.0) + 0.05);
          }
          if (schedule == Schedule::one_f_one_b) {
            EXPECT_LE(std::ranges::max(simulated.most_alive), std::min(ranks, micro_batches));
          }
        }
      }
    }
  }
}

TEST(Schedule, SimulationSeesDeadlocks) {
  auto actions = all_ranks(Schedule::one_f_one_b, 2, 2, 1);
  std::swap(actions[0][0], actions[0][2]);  // a backward before its forward
  EXPECT_TRUE(simulate(actions, 1).deadlock);
}

TEST(Schedule, IsReadFromText) {
  EXPECT_EQ(parse_schedule("1f1b"), Schedule::one_f_one_b);
  EXPECT_EQ(error_of([] { parse_schedule("1F1B"); }),
            "pipeline schedule '1F1B': expected gpipe, 1f1b or interleaved");
}

}  // namespace
}  // namespace sullae::pipeline

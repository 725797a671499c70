// Who may go on when.
#include "ps/server/clocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

namespace sullae::ps {
namespace {

const std::set<int> kThree{0, 1, 2};

// A gradient of the step that the worker is at.
Delay give(Clocks& clocks, int worker, const std::set<int>& members = kThree) {
  const Delay delay = clocks.take(worker, {}, clocks.clock(worker), members);
  if (!clocks.has_rounds()) clocks.updated();
  return delay;
}

// How many were averaged; 0 where the round is not full.
int settle(Clocks& clocks, const std::set<int>& members = kThree) {
  return clocks.is_round_full(members) ? clocks.end_round(members) : 0;
}

// Workers come in any order, one of them seldom.
TEST(Clocks, NeverPassTheBound) {
  std::mt19937 random(7);
  for (const int staleness : {0, 1, 4}) {
    Clocks clocks(staleness);
    int given = 0;
    int most_lead = 0;
    while (given < 100'000) {
      const int worker = random() % 50 == 0 ? 2 : static_cast<int>(random() % 2);
      if (!clocks.may_go_on(worker, kThree)) continue;
      const int lead = give(clocks, worker).lead;
      ASSERT_LE(lead, staleness);
      most_lead = std::max(most_lead, lead);
      settle(clocks);
      ++given;
    }
    EXPECT_EQ(most_lead, staleness);
  }
}

TEST(Clocks, StopAllWhereOneDoesNotCome) {
  std::mt19937 random(7);
  for (const int staleness : {0, 1, 4}) {
    Clocks clocks(staleness);
    for (int i = 0; i < 1000; ++i) {
      const int worker = static_cast<int>(random() % 2);
      if (!clocks.may_go_on(worker, kThree)) continue;
      EXPECT_LE(give(clocks, worker).lead, staleness);
      EXPECT_EQ(settle(clocks), 0);
    }
    EXPECT_EQ(clocks.clock(0), staleness + 1);
    EXPECT_EQ(clocks.clock(1), staleness + 1);
    EXPECT_EQ(clocks.slowest(kThree), 2);
    give(clocks, 2);
    EXPECT_EQ(settle(clocks), staleness == 0 ? 3 : 0);
    EXPECT_TRUE(clocks.may_go_on(0, kThree));
  }
}

TEST(Clocks, WithoutABoundHaveNobodyWait) {
  Clocks clocks(-1);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(clocks.may_go_on(0, kThree));
    EXPECT_EQ(give(clocks, 0).lead, i);
  }
  EXPECT_EQ(give(clocks, 1).updates, 1000);
}

// A server that was restored has what workers had earlier, and they say where they are, one after
// the other.
TEST(Clocks, AreSetByWorkersThatAreFurther) {
  const std::set<int> two{0, 1};
  Clocks rounds(0);
  EXPECT_TRUE(rounds.advance(0, 5));
  EXPECT_FALSE(rounds.advance(0, 5));
  EXPECT_FALSE(rounds.is_round_full(two));
  rounds.take(0, {}, 5, two);
  EXPECT_TRUE(rounds.advance(1, 5));
  EXPECT_FALSE(rounds.is_round_full(two)) << "1 has not given yet";
  rounds.take(1, {}, 5, two);
  EXPECT_EQ(settle(rounds, two), 2);
  EXPECT_TRUE(rounds.may_go_on(0, two) && rounds.may_go_on(1, two));
  // One has had its answer of the round in which the other gives again.
  EXPECT_TRUE(rounds.advance(1, 9));
  rounds.advance(0, 8);
  rounds.take(0, {}, 8, two);
  EXPECT_TRUE(rounds.may_go_on(0, two)) << "that round is over";
  Clocks bounded(2);
  bounded.take(0, {}, 4, two);
  EXPECT_FALSE(bounded.may_go_on(0, two));
  bounded.advance(1, 3);
  EXPECT_TRUE(bounded.may_go_on(0, two));
}

TEST(Clocks, DoNotWaitForWhoHasGone) {
  Clocks clocks(0);
  give(clocks, 0);
  give(clocks, 1);
  EXPECT_EQ(settle(clocks), 0);
  EXPECT_FALSE(clocks.may_go_on(0, kThree));
  EXPECT_EQ(settle(clocks, {0, 1}), 2);
  EXPECT_TRUE(clocks.may_go_on(0, {0, 1}));
}

// It neither holds the others up nor is ahead of them.
TEST(Clocks, LetAWorkerInWhereTheOthersAre) {
  for (const int staleness : {0, 3, -1}) {
    Clocks clocks(staleness);
    const std::set<int> two{0, 1};
    for (int i = 0; i < 5; ++i) {
      give(clocks, 0, two);
      give(clocks, 1, two);
      settle(clocks, two);
    }
    EXPECT_EQ(clocks.join(2, kThree), 5);
    EXPECT_TRUE(clocks.may_go_on(2, kThree));
    EXPECT_TRUE(clocks.may_go_on(0, kThree));
    // Nor does one that comes again forget what it gave, or begin before all that was done without
    // it.
    give(clocks, 2);
    EXPECT_EQ(clocks.join(2, kThree), 6);
    EXPECT_EQ(clocks.join(3, {3}), staleness == 0 ? 5 : 6);  // the round is open
  }
}

// Else a worker whose greeting is late would make a round of the others' alone.
TEST(Clocks, HaveAWorkerThatComesTakePartInTheRoundThatIsOpen) {
  Clocks clocks(0);
  const std::set<int> two{0, 1};
  give(clocks, 0, two);
  EXPECT_EQ(clocks.join(1, two), 0);
  EXPECT_EQ(settle(clocks, two), 0);
  EXPECT_FALSE(clocks.may_go_on(0, two));
  give(clocks, 1, two);
  EXPECT_EQ(settle(clocks, two), 2);
  EXPECT_EQ(clocks.join(1, two), 1);
}

// A server that comes back with what it held at step 3, when worker 0 is at step 8 and worker 1
// still has no answer to its gradient of step 7: as often as that may happen, neither is behind the
// other for ever.
TEST(Clocks, AreWhereWorkersAreAfterAnOlderState) {
  const std::set<int> two{0, 1};
  for (const int staleness : {0, 1}) {
    Clocks clocks(staleness);
    for (int step = 0; step < 3; ++step) {
      clocks.take(0, {1, 1}, step, two);
      clocks.take(1, {2, 1}, step, two);
      settle(clocks, two);
    }
    const auto saved = clocks.numbers();
    for (int deaths = 0; deaths < 3; ++deaths) {
      Clocks again(staleness);
      again.restore(saved);
      again.take(0, {1, 9}, 8, two);
      EXPECT_EQ(settle(again, two), 0);
      again.take(1, {2, 8}, 7, two);
      settle(again, two);
      EXPECT_EQ(again.clock(0), 9);
      EXPECT_EQ(again.clock(1), 8);
      EXPECT_TRUE(again.may_go_on(1, two));
      again.take(1, {2, 9}, 8, two);
      settle(again, two);
      EXPECT_TRUE(again.may_go_on(0, two));
      EXPECT_TRUE(again.may_go_on(1, two));
    }
  }
}

// Its last gradient was in a round that has ended: nobody else is needed for the next.
TEST(Clocks, LetGoOnWhoIsAheadWhenTheOthersLeave) {
  Clocks clocks(0);
  const std::set<int> two{0, 1};
  clocks.take(0, {1, 1}, 8, two);
  clocks.take(1, {2, 1}, 7, two);
  EXPECT_EQ(settle(clocks, two), 2);
  EXPECT_FALSE(clocks.may_go_on(0, two));
  Clocks again(0);
  again.restore(clocks.numbers());
  EXPECT_TRUE(again.has_taken(0, {1, 1})) << "it is in what was saved";
  EXPECT_TRUE(clocks.is_round_full({0}));
  EXPECT_EQ(clocks.end_round({0}), 0);
  EXPECT_TRUE(clocks.may_go_on(0, {0}));
}

// Whoever gave to the round that is open gives again.
TEST(Clocks, AreSavedWithoutTheRoundThatIsOpen) {
  Clocks clocks(0);
  const std::set<int> two{0, 1};
  clocks.take(0, {5, 1}, 0, two);
  clocks.take(1, {6, 1}, 0, two);
  settle(clocks, two);
  clocks.take(0, {5, 2}, 1, two);
  Clocks again(0);
  again.restore(clocks.numbers());
  EXPECT_TRUE(again.has_taken(1, {6, 1}));
  EXPECT_FALSE(again.has_taken(0, {5, 2}));
  EXPECT_EQ(again.clock(0), 1);
}

}  // namespace
}  // namespace sullae::ps

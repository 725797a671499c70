// Who may go on when.
#include "ps/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace sullae::ps {
namespace {

const std::vector<std::uint8_t> kPresent{1};
const std::set<int> kThree{0, 1, 2};

Shard shard_of_zero(int staleness) {
  Shard shard({1}, Rule{}, staleness);
  shard.set_values({0});
  return shard;
}

Delay give(Shard& shard, int worker, float gradient, const std::set<int>& members = kThree) {
  return shard.take(
      {.worker = worker, .learning_rate = 1, .present = kPresent, .values = &gradient}, members);
}

// Workers come in any order, one of them not at all.
TEST(Shard, NeverPassesTheBound) {
  std::mt19937 random(7);
  for (const int staleness : {0, 1, 4}) {
    Shard shard = shard_of_zero(staleness);
    for (int i = 0; i < 100000; ++i) {
      const int worker = static_cast<int>(random() % 2);
      if (!shard.may_go_on(worker, kThree)) continue;
      const Delay delay = give(shard, worker, 0);
      EXPECT_LE(delay.lead, staleness);
    }
    EXPECT_EQ(shard.clock(0), staleness + 1);
    EXPECT_EQ(shard.clock(1), staleness + 1);
    EXPECT_EQ(shard.slowest(kThree), 2);
    give(shard, 2, 0);
    EXPECT_TRUE(shard.may_go_on(0, kThree));
  }
}

TEST(Shard, WithoutABoundNobodyWaits) {
  Shard shard = shard_of_zero(-1);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(shard.may_go_on(0, kThree));
    EXPECT_EQ(give(shard, 0, 1).lead, i);
  }
  EXPECT_FLOAT_EQ((*shard.values())[0], -1000);
  EXPECT_EQ(give(shard, 1, 0).updates, 1000);
}

TEST(Shard, AveragesWhatAllGive) {
  Shard shard = shard_of_zero(0);
  give(shard, 0, 1);
  give(shard, 2, 6);
  EXPECT_FALSE(shard.may_go_on(0, kThree));
  EXPECT_EQ((*shard.values())[0], 0);
  give(shard, 1, 2);
  EXPECT_EQ((*shard.values())[0], -3);
  for (const int worker : kThree) EXPECT_TRUE(shard.may_go_on(worker, kThree));
}

TEST(Shard, DoesNotWaitForWhoHasGone) {
  Shard shard = shard_of_zero(0);
  give(shard, 0, 1);
  give(shard, 1, 3);
  shard.settle({0, 1});
  EXPECT_EQ((*shard.values())[0], -2);
  EXPECT_TRUE(shard.may_go_on(0, {0, 1}));
}

// It neither holds the others up nor is ahead of them.
TEST(Shard, LetsAWorkerInWhereTheOthersAre) {
  for (const int staleness : {0, 3, -1}) {
    Shard shard = shard_of_zero(staleness);
    const std::set<int> two{0, 1};
    for (int i = 0; i < 5; ++i) {
      give(shard, 0, 0, two);
      give(shard, 1, 0, two);
    }
    EXPECT_EQ(shard.join(2, kThree), 5);
    EXPECT_TRUE(shard.may_go_on(2, kThree));
    EXPECT_TRUE(shard.may_go_on(0, kThree));
    // Nor does one that comes again forget what it gave, or begin before all that was done without it.
    give(shard, 2, 0);
    EXPECT_EQ(shard.join(2, kThree), 6);
    EXPECT_EQ(shard.join(3, {3}), staleness == 0 ? 5 : 6);  // the round is open
  }
}

TEST(Shard, LeavesAloneWhatHasNoGradient) {
  for (const int staleness : {0, 1}) {
    Shard shard({2, 1}, {.kind = Rule::Kind::adam}, staleness);
    shard.set_values({1, 1, 1});
    const std::vector<std::uint8_t> second{0, 1};
    const std::vector<float> gradient{5, 5, 5};
    shard.take({.worker = 0, .learning_rate = 0.5, .present = second, .values = gradient.data()},
               {0});
    EXPECT_EQ((*shard.values())[0], 1);
    EXPECT_EQ((*shard.values())[1], 1);
    EXPECT_FLOAT_EQ((*shard.values())[2], 0.5);
  }
}

// Else a worker whose greeting is late would make a round of the others' alone.
TEST(Shard, AWorkerThatComesTakesPartInTheRoundThatIsOpen) {
  Shard shard = shard_of_zero(0);
  const std::set<int> two{0, 1};
  give(shard, 0, 1, two);
  EXPECT_EQ(shard.join(1, two), 0);
  shard.settle(two);
  EXPECT_FALSE(shard.may_go_on(0, two));
  give(shard, 1, 3, two);
  EXPECT_EQ((*shard.values())[0], -2);
  EXPECT_EQ(shard.join(1, two), 1);
}

// What is on its way to a worker stays as it was.
TEST(Shard, ChangesNoValuesThatSomebodyKeeps) {
  Shard shard = shard_of_zero(-1);
  const auto kept = shard.values();
  give(shard, 0, 1);
  EXPECT_EQ((*kept)[0], 0);
  EXPECT_EQ((*shard.values())[0], -1);
}

TEST(Shard, GivesNothingBeforeItHasValues) {
  Shard shard({1}, Rule{}, -1);
  EXPECT_FALSE(shard.may_go_on(0, {0}));
}

}  // namespace
}  // namespace sullae::ps

#include "ps/server/members.h"

#include <gtest/gtest.h>

namespace sullae::ps {
namespace {

using std::chrono::milliseconds;

const Clock::time_point kStart = Clock::now();

TEST(Members, WaitForThoseWhoAreExpectedUntilTheyEnd) {
  Members members(2, milliseconds{100});
  EXPECT_EQ(members.counted(), (std::set<int>{0, 1}));
  EXPECT_FALSE(members.hear(1, 7, kStart));
  members.join(1, 7, kStart);
  members.join(5, 8, kStart);
  EXPECT_EQ(members.counted(), (std::set<int>{0, 1})) << "it has not given anything yet";
  members.count(5);
  EXPECT_EQ(members.counted(), (std::set<int>{0, 1, 5}));
  EXPECT_TRUE(members.hear(1, 7, kStart + milliseconds{90}));
  EXPECT_EQ(members.expire(kStart + milliseconds{150}), std::vector<int>{5});
  // Who has not come yet has no lease.
  EXPECT_EQ(members.counted(), (std::set<int>{0, 1}));
  EXPECT_FALSE(members.leave(1, 6));
  EXPECT_TRUE(members.counted().contains(1));
  EXPECT_TRUE(members.leave(1, 7));
  EXPECT_FALSE(members.counted().contains(1));
}

// Who is restored lives by any word of its, and is not known before it says hello.
TEST(Members, TellWhoHasJoinedFromWhoIsRestored) {
  Members members(1, milliseconds{100});
  members.restore({0, 1}, {0, 1}, {});
  members.renew(kStart);
  EXPECT_FALSE(members.hear(0, 7, kStart + milliseconds{90}));
  EXPECT_FALSE(members.has_joined(0));
  EXPECT_EQ(members.expire(kStart + milliseconds{150}), std::vector<int>{1});
  members.join(0, 7, kStart);
  EXPECT_TRUE(members.has_joined(0));
  EXPECT_FALSE(members.hear(0, 8, kStart));
}

// Before it has said hello here, too.
TEST(Members, AreNotWaitedForWhenTheyLeave) {
  Members members(2, milliseconds{100});
  EXPECT_TRUE(members.leave(1, 7));
  EXPECT_EQ(members.counted(), std::set<int>{0});
  members.restore({0}, {0}, {});
  EXPECT_TRUE(members.leave(0, 9));
  EXPECT_TRUE(members.counted().empty());
  members.join(1, 8, kStart);
  EXPECT_TRUE(members.counted().contains(1)) << "it was expected";
}

// Whoever has left last time may come again.
TEST(Members, AreWaitedForWhenItBeginsAgainButForTheDeadAndThoseAtRest) {
  Members members(4, milliseconds{100});
  for (int worker = 0; worker < 4; ++worker) {
    members.join(worker, 7, kStart);
    EXPECT_TRUE(members.leave(worker, 7));
  }
  EXPECT_TRUE(members.counted().empty());
  members.rest(3);
  members.begin({1});
  EXPECT_EQ(members.counted(), (std::set<int>{0, 2}));
  EXPECT_TRUE(members.rests(3));
}

TEST(Members, ThatAnotherServerExpectedAreNotWaitedFor) {
  Members members(1, milliseconds{100});
  members.restore({0, 2}, {0, 1, 2}, {});
  EXPECT_EQ(members.counted(), (std::set<int>{0, 2})) << "1 has never come";
}

TEST(Members, RestUntilTheyAreCounted) {
  Members members(2, milliseconds{100});
  members.join(0, 7, kStart);
  members.rest(0);
  EXPECT_EQ(members.counted(), std::set<int>{1});
  EXPECT_TRUE(members.rests(0));
  Members again(2, milliseconds{100});
  again.restore(members.living(), members.counted(), members.resting());
  EXPECT_TRUE(again.rests(0)) << "so that it is counted when it pulls";
  EXPECT_TRUE(members.hear(0, 7, kStart));
  EXPECT_EQ(members.living(), std::set<int>{0});
  members.count(0);
  EXPECT_EQ(members.counted(), (std::set<int>{0, 1}));
  EXPECT_FALSE(members.rests(0));
}

}  // namespace
}  // namespace sullae::ps

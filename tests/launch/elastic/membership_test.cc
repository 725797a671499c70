// Who is started, who is asked to come out, and which world is made.
#include <gtest/gtest.h>

#include "launch/elastic/trial.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

class Members : public ::testing::Test, protected Trial {};

TEST_F(Members, StartTogether) {
  begin({.start = 3, .min_ranks = 1, .max_ranks = 3}, {{"a", 2}, {"b", 2}});
  ASSERT_EQ(started_.size(), 3U);
  EXPECT_EQ(started_[1].host, "a");
  EXPECT_EQ(started_[1].slot, 1);
  EXPECT_EQ(started_[2].host, "b");
  ready(2);
  ready(0);
  EXPECT_TRUE(formed_.empty());
  ready(1);
  ASSERT_EQ(formed_.size(), 1U);
  EXPECT_EQ(workers(), (Workers{0, 1, 2}));
  EXPECT_EQ(interrupts_, 0);
}

TEST_F(Members, GoOnWithoutWhoDied) {
  begin({.start = 3, .min_ranks = 2, .max_ranks = 3}, {{"a", 3}});
  for (const int worker : {0, 1, 2}) ready(worker);
  ended(0, Ending::failed);
  EXPECT_EQ(abandoned_, 1);
  EXPECT_EQ(started_.size(), 3U);  // the host cools down
  ready(2, "worker 0 is gone");
  EXPECT_EQ(formed_.size(), 1U);  // one still has to come out
  ready(1);
  ASSERT_EQ(formed_.size(), 2U);
  EXPECT_EQ(workers(), (Workers{1, 2}));  // the oldest is rank 0
  EXPECT_TRUE(contains(formed_.back().reason, "worker 0 on a was killed"));
  pass(Milliseconds{1000});
  ASSERT_EQ(started_.size(), 4U);
  EXPECT_EQ(started_[3].slot, 0);
  ready(3);
  EXPECT_EQ(interrupts_, 1);
  ready(1);
  ready(2);
  EXPECT_EQ(workers(), (Workers{1, 2, 3}));
}

TEST_F(Members, OneMembersFailureIsAllMembers) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2}, {{"a", 2}});
  ready(0);
  ready(1);
  ready(0, "a wait timed out");
  EXPECT_EQ(abandoned_, 1);
  ready(1);
  ASSERT_EQ(formed_.size(), 2U);
  EXPECT_EQ(formed_.back().reason, "a wait timed out");
  EXPECT_EQ(workers(), (Workers{0, 1}));
}

// A rank that waits for another may see its death before the launcher does, and says less of it.
TEST_F(Members, ADeathThatIsHeardOfLateIsToldToo) {
  begin({.start = 3, .min_ranks = 1, .max_ranks = 3}, {{"a", 3}});
  for (const int worker : {0, 1, 2}) ready(worker);
  ready(1, "rank 0 closed its connection");
  ended(0, Ending::failed);
  EXPECT_EQ(abandoned_, 1);
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_EQ(notes_[0], "generation 0: worker 0 on a was killed");
  ready(2);
  ASSERT_EQ(formed_.size(), 2U);
  EXPECT_EQ(formed_.back().reason, "rank 0 closed its connection, worker 0 on a was killed");
}

TEST_F(Members, TwoDeathsAndOneDuringTheChange) {
  begin({.start = 4, .min_ranks = 1, .max_ranks = 4, .first_cooldown = Milliseconds{5000}},
        {{"a", 4}});
  for (const int worker : {0, 1, 2, 3}) ready(worker);
  ended(1, Ending::failed);
  ended(2, Ending::failed);
  ready(3);
  ended(0, Ending::failed);
  ASSERT_EQ(formed_.size(), 2U);
  EXPECT_EQ(workers(), (Workers{3}));
}

TEST_F(Members, WhoLeavesIsNotReplacedOnAHostThatIsGone) {
  begin({.start = 4, .min_ranks = 1, .max_ranks = 4}, {{"a", 2}, {"b", 2}});
  for (const int worker : {0, 1, 2, 3}) ready(worker);
  membership_->set_hosts({{"a", 2}}, now_);
  take();
  EXPECT_EQ(interrupts_, 1);
  for (const int worker : {0, 1, 2, 3}) ready(worker);
  EXPECT_EQ(workers(), (Workers{0, 1}));
  EXPECT_EQ(stopped_, (Workers{2, 3}));
  ended(2, Ending::left);
  ended(3, Ending::failed);  // killed by what was sent to it
  EXPECT_EQ(abandoned_, 0);
  membership_->set_hosts({{"a", 2}, {"b", 1}}, now_);
  take();
  EXPECT_EQ(started_.size(), 5U);
}

TEST_F(Members, PauseBelowTheLeastAndGoOn) {
  begin({.start = 2, .min_ranks = 2, .max_ranks = 2}, {{"a", 2}});
  ready(0);
  ready(1);
  ended(1, Ending::failed);
  ready(0);
  EXPECT_EQ(formed_.size(), 1U);
  EXPECT_TRUE(contains(notes_.back(), "1 of at least 2 ranks are left"));
  pass(Milliseconds{1000});
  ready(2);
  EXPECT_EQ(workers(), (Workers{0, 2}));
}

TEST_F(Members, NotForEver) {
  begin({.start = 2, .min_ranks = 2, .max_ranks = 2, .timeout = Milliseconds{60000}}, {{"a", 2}});
  ready(0);
  ready(1);
  ended(1, Ending::failed);
  ready(0);
  for (int second = 0; second < 59; ++second) pass(Milliseconds{1000});
  EXPECT_EQ(failure_, "");
  pass(Milliseconds{1000});
  EXPECT_EQ(failure_, "") << "who has the state keeps it first";
  EXPECT_TRUE(formed_.back().is_last);
  EXPECT_EQ(workers(), (Workers{0}));
  left(0);
  EXPECT_TRUE(contains(failure_, "only 1 rank came within 60 s (--elastic-timeout), expected 2"));
}

TEST_F(Members, WithFewerAtMostTheYoungestGo) {
  begin({.start = 3, .min_ranks = 1, .max_ranks = 3}, {{"a", 1}, {"b", 2}});
  for (const int worker : {0, 1, 2}) ready(worker);
  membership_->set_limits(1, 1);
  membership_->set_hosts({{"a", 1}, {"b", 2}}, now_);
  take();
  EXPECT_EQ(interrupts_, 1);
  for (const int worker : {0, 1, 2}) ready(worker);
  EXPECT_EQ(workers(), (Workers{0}));
  EXPECT_EQ(stopped_, (Workers{1, 2}));
  ended(1, Ending::left);
  ended(2, Ending::left);
  membership_->set_limits(1, 2);
  membership_->set_hosts({{"a", 1}, {"b", 2}}, now_);
  take();
  EXPECT_EQ(started_.size(), 4U);
}

TEST_F(Members, NobodyLeftIsTheEnd) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2}, {{"a", 2}});
  ready(0);
  ready(1);
  ended(0, Ending::failed, "ended with exit code 3");
  ended(1, Ending::failed, "ended with exit code 3");
  EXPECT_TRUE(contains(failure_, "no rank is left of the world that had 2"));
}

TEST_F(Members, ChangesAreLimited) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2, .changes = 1}, {{"a", 2}});
  ready(0);
  ready(1);
  ready(0, "failed");
  ready(1);
  EXPECT_EQ(formed_.size(), 2U);
  ready(0, "failed again");
  ready(1);
  EXPECT_TRUE(formed_.back().is_last);
  left(0);
  left(1);
  EXPECT_TRUE(contains(failure_, "has changed 1 time (--reset-limit)"));
}

TEST_F(Members, HostsCoolDownLongerEachTime) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2, .last_cooldown = Milliseconds{4000}},
        {{"a", 2}});
  ready(0);
  ready(1);
  for (const int seconds : {1, 2, 4, 4}) {
    const int last = started_.back().worker;
    ended(last, Ending::failed);
    ready(0);
    const auto before = started_.size();
    pass(Milliseconds{1000 * seconds - 1});
    EXPECT_EQ(started_.size(), before);
    pass(Milliseconds{1});
    ASSERT_EQ(started_.size(), before + 1);
    ready(started_.back().worker);
    ready(0);
  }
}

TEST_F(Members, WhoComesTogetherJoinsTogether) {
  begin({.start = 1, .min_ranks = 1, .max_ranks = 4}, {{"a", 1}});
  ready(0);
  pass(Milliseconds{1000});
  membership_->set_hosts({{"a", 4}}, now_);
  take();
  EXPECT_EQ(started_.size(), 4U);
  ready(1);
  EXPECT_EQ(interrupts_, 0);
  ready(2);
  pass(Milliseconds{900});
  EXPECT_EQ(interrupts_, 0);
  pass(Milliseconds{100});  // long enough for worker 3
  EXPECT_EQ(interrupts_, 1);
  ready(0);
  EXPECT_EQ(workers(), (Workers{0, 1, 2}));
  ready(3);
  EXPECT_EQ(interrupts_, 2);
}

TEST_F(Members, AStepMayTakeLongerThanAnyLimit) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 3, .timeout = Milliseconds{5000}}, {{"a", 3}});
  ready(0);
  ready(1);
  pass(Milliseconds{1000});
  ready(2);
  EXPECT_EQ(interrupts_, 1);
  pass(Milliseconds{100000});
  EXPECT_TRUE(stopped_.empty());
  ready(0);
  ready(1);
  EXPECT_EQ(workers(), (Workers{0, 1, 2}));
}

// One that hangs is waited for by all others, until they give up.
TEST_F(Members, WhoDoesNotComeOutWhenAskedIsStoppedWhereOthersHaveFailed) {
  begin({.start = 3, .min_ranks = 1, .max_ranks = 3, .timeout = Milliseconds{5000}},
        {{"a", 2}, {"b", 1}});
  for (const int worker : {0, 1, 2}) ready(worker);
  membership_->set_hosts({{"a", 2}}, now_);
  take();
  EXPECT_EQ(interrupts_, 1);
  pass(Milliseconds{20000});  // of a long step
  ready(0, "rank 2 does not answer");
  EXPECT_TRUE(stopped_.empty());
  ready(1, "rank 2 does not answer");
  pass(Milliseconds{5000});
  EXPECT_EQ(stopped_, (Workers{2}));
  ended(2, Ending::left);
  EXPECT_EQ(workers(), (Workers{0, 1}));
}

TEST_F(Members, WhoDoesNotComeOutOfAFailedWorldIsStopped) {
  begin({.start = 3, .min_ranks = 1, .max_ranks = 3, .timeout = Milliseconds{5000}}, {{"a", 3}});
  for (const int worker : {0, 1, 2}) ready(worker);
  ended(0, Ending::failed);
  ready(1);
  pass(Milliseconds{5000});
  EXPECT_EQ(stopped_, (Workers{2}));
  ended(2, Ending::left);
  EXPECT_EQ(workers(), (Workers{1}));
}

// Not for as long as others may be waited for.
TEST_F(Members, WhoStaysInAFailedWorldIsToldOfAndStoppedSoon) {
  begin({.start = 3, .min_ranks = 1, .max_ranks = 3, .timeout = Milliseconds{1'000'000}},
        {{"a", 3}});
  for (const int worker : {0, 1, 2}) ready(worker);
  ended(0, Ending::killed);
  pass(Milliseconds{100'000});  // a step may take its time where nobody has the state
  EXPECT_TRUE(stopped_.empty());
  ready(1);
  pass(Milliseconds{5000});
  ASSERT_FALSE(notes_.empty());
  EXPECT_EQ(
      notes_.back(),
      "worker 2 on a has not come out of the world that has failed: waiting for it, 55 s more "
      "at most");
  pass(Milliseconds{54'000});
  EXPECT_TRUE(stopped_.empty());
  pass(Milliseconds{1000});
  EXPECT_EQ(stopped_, (Workers{2}));
  ended(2, Ending::left);
  EXPECT_EQ(workers(), (Workers{1}));
}

TEST_F(Members, WhoComesOutAfterTheEndIsStopped) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2}, {{"a", 2}});
  ready(0);
  ready(1);
  ended(0, Ending::done);
  ready(1, "rank 0 has left the world");
  EXPECT_EQ(stopped_, (Workers{1}));
  EXPECT_EQ(formed_.size(), 1U);
}

TEST_F(Members, RanksThatAreLostAtOnceAreLostOnce) {
  begin({.start = 4, .min_ranks = 1, .max_ranks = 4}, {{"a", 1}, {"b", 3}});
  for (const int worker : {0, 1, 2, 3}) ready(worker);
  membership_->lost("b", "is lost with its host", now_);
  take();
  ready(0);
  EXPECT_EQ(workers(), (Workers{0}));
  pass(Milliseconds{1000});
  EXPECT_EQ(started_.size(), 7U);
}

TEST_F(Members, AHostThatIsNamedTwiceHasTheSlotsOfBoth) {
  begin({.start = 5, .min_ranks = 1, .max_ranks = 6}, {{"a", 2}, {"b", 1}, {"a", 3}});
  EXPECT_EQ(started_.size(), 6U);
  for (const int worker : {0, 1, 2, 3, 4, 5}) ready(worker);
  EXPECT_EQ(workers(), (Workers{0, 1, 2, 3, 4, 5}));
  pass(Milliseconds{1000});
  EXPECT_EQ(stopped_, (Workers{}));
  EXPECT_EQ(interrupts_, 0);
}

TEST_F(Members, AnEndIsNoReasonToChange) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 3}, {{"a", 3}});
  ready(0);
  ready(1);
  pass(Milliseconds{1000});
  ASSERT_EQ(workers(), (Workers{0, 1}));
  ended(0, Ending::done);
  EXPECT_TRUE(membership_->finishing());
  EXPECT_EQ(stopped_, (Workers{2}));
  ready(2);
  ended(1, Ending::done);
  ended(2, Ending::failed);
  EXPECT_TRUE(membership_->empty());
  EXPECT_EQ(interrupts_ + abandoned_, 0);
}

}  // namespace
}  // namespace sullae::testing

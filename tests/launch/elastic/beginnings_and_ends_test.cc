// What is told, and what it comes to, where workers fail before they are in a world, or when it
// ends.
#include <gtest/gtest.h>

#include "launch/elastic/trial.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

class BeginningsAndEnds : public ::testing::Test, protected Trial {};

TEST_F(BeginningsAndEnds, AMistakeAtTheStartIsTold) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2}, {{"a", 2}});
  ended(1, Ending::failed, "ended with exit code 2");
  EXPECT_TRUE(contains(failure_, "worker 1 on a ended with exit code 2 before it was ready"));
}

TEST_F(BeginningsAndEnds, AKillAtTheStartIsNoMistakeUnlessItGoesOn) {
  begin({.start = 1, .min_ranks = 1, .max_ranks = 1}, {{"a", 1}});
  for (int worker = 0; worker < 3; ++worker) {
    ended(worker, Ending::killed, "was killed by signal 9 (Killed)");
    EXPECT_EQ(failure_, "");
    pass(Milliseconds{1000 << worker});
    ASSERT_EQ(started_.size(), static_cast<std::size_t>(worker + 2));
  }
  EXPECT_TRUE(contains(notes_.front(), "before it was ready; another one starts in 1 s"));
  ended(3, Ending::killed, "was killed by signal 9 (Killed)");
  EXPECT_TRUE(contains(failure_, "worker 3 on a was killed by signal 9 (Killed) before it was"));
}

TEST_F(BeginningsAndEnds, AnEndBeforeTheBeginningIsAFailure) {
  begin({.start = 1, .min_ranks = 1, .max_ranks = 2}, {{"a", 2}});
  ready(0);
  pass(Milliseconds{1000});
  ASSERT_EQ(workers(), (Workers{0}));
  ended(1, Ending::done, "ended with exit code 0");
  EXPECT_EQ(started_.size(), 2U);  // not at once, and not without end
  pass(Milliseconds{1000});
  EXPECT_EQ(started_.size(), 3U);
  *membership_ = Membership({.start = 1, .min_ranks = 1, .max_ranks = 1});
  membership_->set_hosts({{"a", 1}}, now_);
  take();
  ended(0, Ending::done, "ended with exit code 0");
  EXPECT_TRUE(contains(failure_, "worker 0 on a ended with exit code 0 before it was ready"));
}

TEST_F(BeginningsAndEnds, AHostThatIsLostAtTheStartIsNoMistake) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2}, {{"a", 1}, {"b", 1}});
  ready(0);
  membership_->lost("b", "is lost with its host", now_);
  take();
  EXPECT_EQ(failure_, "");
  membership_->set_hosts({{"a", 1}}, now_);
  take();
  pass(Milliseconds{60000});
  EXPECT_EQ(failure_, "");
}

TEST_F(BeginningsAndEnds, HostsThatAllGoBeforeTheBeginningAreWaitedFor) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2}, {{"a", 1}, {"b", 1}});
  membership_->set_hosts({}, now_);
  take();
  EXPECT_EQ(stopped_, (Workers{0, 1}));
  ended(0, Ending::left);
  ended(1, Ending::left);
  pass(Milliseconds{1000});
  EXPECT_EQ(failure_, "");
  membership_->set_hosts({{"c", 2}}, now_);
  take();
  ASSERT_EQ(started_.size(), 4U);
  ready(2);
  ready(3);
  EXPECT_EQ(workers(), (Workers{2, 3}));
}

TEST_F(BeginningsAndEnds, TooFewSlotsAreTold) {
  begin({.start = 3, .min_ranks = 1, .max_ranks = 4}, {{"a", 2}});
  ready(0);
  EXPECT_TRUE(notes_.empty());
  ready(1);
  pass(Milliseconds{1000});
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_EQ(notes_[0],
            "there are slots for 2 of the 3 ranks to begin with (-np); waiting for hosts");
  membership_->set_hosts({{"a", 2}, {"b", 1}}, now_);
  take();
  ready(2);
  EXPECT_EQ(workers(), (Workers{0, 1, 2}));
}

TEST_F(BeginningsAndEnds, WhoFailsBeforeItIsReadyIsTold) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2}, {{"a", 2}});
  for (const int worker : {0, 1}) ready(worker);
  ended(1, Ending::failed);
  ready(0);
  pass(Milliseconds{1000});
  ASSERT_EQ(started_.size(), 3U);
  ended(2, Ending::failed, "ended with exit code 3");
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_EQ(notes_[0],
            "worker 2 on a ended with exit code 3 before it was ready; another one starts in 2 s");
  EXPECT_EQ(failure_, "");
}

// It may have been the one that saves what all have trained.
TEST_F(BeginningsAndEnds, MembersThatAreDoneAfterOneHasFailedAreTold) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2}, {{"a", 2}});
  for (const int worker : {0, 1}) ready(worker);
  ended(0, Ending::failed);
  ended(1, Ending::done);
  EXPECT_TRUE(membership_->finishing());
  EXPECT_TRUE(membership_->finishes_without_one());
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_EQ(
      notes_[0],
      "worker 1 on a is done, and one of its world has failed before it was (worker 0 on a was "
      "killed)");
}

TEST_F(BeginningsAndEnds, MembersThatAreDoneInAnotherWorldAreDone) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2}, {{"a", 2}});
  for (const int worker : {0, 1}) ready(worker);
  ended(0, Ending::failed);
  ready(1);
  ended(1, Ending::done);
  EXPECT_FALSE(membership_->finishes_without_one());
}

}  // namespace
}  // namespace sullae::testing

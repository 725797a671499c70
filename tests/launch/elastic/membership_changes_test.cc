// Who goes, who comes, and who gives whom the state.
#include <gtest/gtest.h>

#include "launch/elastic/trial.h"

namespace sullae::testing {
namespace {

class Successors : public ::testing::Test, protected Trial {};

// The state is nowhere else than with those whose hosts are wanted back.
TEST_F(Successors, WhoComesIsGivenTheStateBeforeAllOthersGo) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2}, {{"a", 2}});
  ready(0);
  ready(1);
  membership_->set_hosts({{"b", 2}}, now_);
  take();
  ASSERT_EQ(started_.size(), 4U);
  EXPECT_EQ(interrupts_, 0) << "they train on until there is somebody";
  pass(Milliseconds{30000});
  EXPECT_EQ(interrupts_, 0);
  ready(2);
  ready(3);
  EXPECT_EQ(interrupts_, 1);
  EXPECT_EQ(leaving_, (Workers{}));
  ready(0);
  ready(1);
  ASSERT_EQ(formed_.size(), 2U);
  EXPECT_EQ(workers(), (Workers{0, 2}));
  EXPECT_EQ(stopped_, (Workers{1}));
  ended(1, Ending::left);
  EXPECT_EQ(interrupts_, 2);
  EXPECT_EQ(leaving_, (Workers{0}));
  ready(0);
  ready(2);
  ASSERT_EQ(formed_.size(), 3U);
  EXPECT_EQ(workers(), (Workers{2, 3}));
  EXPECT_EQ(stopped_, (Workers{1, 0}));
  EXPECT_EQ(failure_, "");
}

TEST_F(Successors, WhoWouldComeAndDoesNotIsNotWaitedForLonger) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2, .timeout = Milliseconds{5000}}, {{"a", 2}});
  ready(0);
  ready(1);
  membership_->set_hosts({{"b", 2}}, now_);
  take();
  ended(2, Ending::failed);
  ended(3, Ending::failed);
  EXPECT_EQ(interrupts_, 0) << "they are started once more";
  pass(Milliseconds{5000});
  EXPECT_EQ(interrupts_, 1) << "nobody comes";
  EXPECT_EQ(leaving_, (Workers{0, 1}));
}

// As one whose login is not up yet.
TEST_F(Successors, AHostThatCannotBeUsedYetIsTriedAgain) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2, .first_cooldown = Milliseconds{1000}},
        {{"a", 2}});
  ready(0);
  ready(1);
  membership_->set_hosts({{"b", 2}}, now_);
  take();
  membership_->lost("b", "cannot be reached", now_);
  take();
  const auto before = started_.size();
  EXPECT_EQ(interrupts_, 0);
  pass(Milliseconds{1000});
  ASSERT_EQ(started_.size(), before + 2);
  EXPECT_EQ(interrupts_, 0);
  for (auto one = started_.end() - 2; one != started_.end(); ++one) ready(one->worker);
  EXPECT_EQ(interrupts_, 1);
  EXPECT_EQ(failure_, "");
}

// One after the other, as agents hear of it.
TEST_F(Successors, HostsThatAreTakenBackOneAfterTheOtherAllKnowThatTheyGo) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2}, {{"a", 1}, {"b", 1}});
  ready(0);
  ready(1);
  membership_->set_hosts({{"b", 1}}, now_);
  take();
  EXPECT_EQ(leaving_, (Workers{0}));
  membership_->set_hosts({}, now_);
  take();
  EXPECT_EQ(interrupts_, 2);
  EXPECT_EQ(leaving_, (Workers{0, 1}));
}

TEST_F(Successors, WhoHasBeenAskedToGoHandsNothingOver) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2}, {{"a", 2}});
  ready(0);
  ready(1);
  membership_->set_hosts({{"b", 2}}, now_);
  take();
  ready(2);
  ready(3);
  EXPECT_EQ(interrupts_, 1);
  membership_->leaves(0, now_);  // its host is about to go
  take();
  ready(0);
  ready(1);
  EXPECT_EQ(workers(), (Workers{1, 2}));
}

// It has what the others need.
TEST_F(Successors, WhoSurvivesWhileSuccessorsStartIsNotStopped) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2}, {{"a", 2}});
  ready(0);
  ready(1);
  membership_->set_hosts({{"b", 2}}, now_);
  take();
  ended(1, Ending::failed);
  ready(0, "rank 1 is gone");
  EXPECT_TRUE(stopped_.empty());
  EXPECT_EQ(workers(), (Workers{0}));
  ready(2);
  ready(3);
  ready(0);
  EXPECT_EQ(workers(), (Workers{0, 2}));
  EXPECT_EQ(failure_, "");
}

TEST_F(Successors, WhereHostsWillBeGoneSoonSuccessorsHaveALittleTime) {
  begin({.start = 1, .min_ranks = 1, .max_ranks = 1}, {{"a", 1}});
  ready(0);
  membership_->taken_back("a");
  membership_->set_hosts({{"b", 1}}, now_);
  take();
  EXPECT_EQ(interrupts_, 0);
  pass(Milliseconds{15000});
  EXPECT_EQ(leaving_, (Workers{0}));
}

TEST_F(Successors, WhereAllWishToGoNobodyIsWaitedFor) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2}, {{"a", 2}, {"b", 2}});
  ready(0);
  ready(1);
  for (const int worker : {0, 1}) {
    membership_->leaves(worker, now_);
    take();
  }
  EXPECT_EQ(leaving_, (Workers{0, 1}));
}

// It was told to go, and comes out for another reason.
TEST_F(Successors, WhoWasToldToGoAndIsThereHandsOverOnceMore) {
  begin({.start = 1, .min_ranks = 1, .max_ranks = 2}, {{"a", 1}});
  ready(0);
  membership_->set_hosts({{"b", 2}}, now_);
  take();
  ready(1);
  pass(Milliseconds{1000});
  ready(0);
  ASSERT_EQ(workers(), (Workers{0, 1}));
  pass(Milliseconds{0});
  EXPECT_EQ(leaving_, (Workers{0}));
  ready(2);
  ended(1, Ending::failed);
  ready(0, "rank 1 is gone");
  EXPECT_EQ(failure_, "");
  EXPECT_TRUE(stopped_.empty());
  EXPECT_EQ(workers(), (Workers{0, 2}));
}

}  // namespace
}  // namespace sullae::testing

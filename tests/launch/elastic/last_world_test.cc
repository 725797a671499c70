// Those who have the state, where no other will be given it, have one more world in which they keep
// it.
#include <gtest/gtest.h>

#include "launch/elastic/trial.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

class LastWorld : public ::testing::Test, protected Trial {
 protected:
  // Two ranks, one of which is lost, and the other waits for another.
  void lose_one() {
    begin({.start = 2, .min_ranks = 2, .max_ranks = 2}, {{"a", 2}});
    ready(0);
    ready(1);
    ended(1, Ending::failed);
    ready(0, "rank 1 is gone");
    ASSERT_EQ(formed_.size(), 1U);
  }
};

TEST_F(LastWorld, IsMadeForWhoIsAskedToGoWhileItWaits) {
  lose_one();
  leaves(0);
  ASSERT_EQ(formed_.size(), 2U);
  EXPECT_TRUE(formed_.back().is_last);
  EXPECT_EQ(workers(), (Workers{0}));
  EXPECT_EQ(stopped_, (Workers{}));
  EXPECT_EQ(failure_, "");
  left(0);
  EXPECT_TRUE(contains(failure_, "no rank is left of the world that had 2")) << failure_;
}

TEST_F(LastWorld, IsMadeWhenTheJobEnds) {
  lose_one();
  membership_->close(now_);
  take();
  ASSERT_EQ(formed_.size(), 2U);
  EXPECT_TRUE(formed_.back().is_last);
  EXPECT_EQ(formed_.back().reason, "the job ends; what they have is kept");
}

TEST_F(LastWorld, WaitsForThoseWhoAreOnTheirWayOutOfTheOneBefore) {
  begin({.start = 3, .min_ranks = 3, .max_ranks = 3}, {{"a", 3}});
  for (const int worker : {0, 1, 2}) ready(worker);
  ended(1, Ending::failed);
  ready(0, "rank 1 is gone");
  membership_->close(now_);
  take();
  EXPECT_EQ(formed_.size(), 1U);
  ready(2, "rank 1 is gone");
  ASSERT_EQ(formed_.size(), 2U);
  EXPECT_TRUE(formed_.back().is_last);
  EXPECT_EQ(workers(), (Workers{0, 2}));
}

TEST_F(LastWorld, IsNoneWhereAnotherHasTheState) {
  begin({.start = 3, .min_ranks = 3, .max_ranks = 3}, {{"a", 3}});
  for (const int worker : {0, 1, 2}) ready(worker);
  ended(1, Ending::failed);
  ready(0, "rank 1 is gone");
  ready(2, "rank 1 is gone");
  leaves(0);
  EXPECT_EQ(formed_.size(), 1U);
  EXPECT_EQ(stopped_, (Workers{0})) << "it hears that it is not needed";
  EXPECT_EQ(failure_, "");
}

TEST_F(LastWorld, IsNoneBeforeThereWasOneNorWhileOneRuns) {
  begin({.start = 2, .min_ranks = 2, .max_ranks = 2}, {{"a", 2}});
  membership_->close(now_);
  ready(0);
  ready(1);
  membership_->close(now_);
  take();
  ASSERT_EQ(formed_.size(), 1U);
  EXPECT_FALSE(formed_.back().is_last);
}

TEST_F(LastWorld, IsMadeWhereARankIsLostWhileTheJobEnds) {
  begin({.start = 3, .min_ranks = 1, .max_ranks = 3}, {{"a", 3}});
  for (const int worker : {0, 1, 2}) ready(worker);
  membership_->close(now_);
  take();
  EXPECT_EQ(formed_.size(), 1U);
  ended(1, Ending::failed);
  EXPECT_EQ(abandoned_, 1);
  leaves(0);
  ready(0, "rank 1 is gone");
  EXPECT_EQ(formed_.size(), 1U) << "2 is still in it";
  leaves(2);
  ready(2, "rank 1 is gone");
  ASSERT_EQ(formed_.size(), 2U);
  EXPECT_TRUE(formed_.back().is_last);
  EXPECT_EQ(workers(), (Workers{0, 2}));
}

TEST_F(LastWorld, IsNoneWhereAllLeaveTheirsAsTheyAreTo) {
  begin({.start = 2, .min_ranks = 1, .max_ranks = 2}, {{"a", 2}});
  ready(0);
  ready(1);
  membership_->close(now_);
  take();
  left(0);
  left(1);
  EXPECT_EQ(formed_.size(), 1U);
  EXPECT_EQ(abandoned_, 0);
}

TEST_F(LastWorld, IsTheLastThoughItFails) {
  lose_one();
  leaves(0);
  ended(0, Ending::failed);
  EXPECT_EQ(formed_.size(), 2U);
  EXPECT_TRUE(contains(failure_, "no rank is left of the world that had 2")) << failure_;
}

TEST_F(LastWorld, IsNotWaitedForForEver) {
  begin({.start = 2, .min_ranks = 2, .max_ranks = 2, .timeout = Milliseconds{5000}}, {{"a", 2}});
  ready(0);
  ready(1);
  ended(1, Ending::failed);
  ready(0, "rank 1 is gone");
  leaves(0);
  ASSERT_TRUE(formed_.back().is_last);
  pass(Milliseconds{4000});
  EXPECT_EQ(failure_, "");
  pass(Milliseconds{1000});
  EXPECT_TRUE(contains(failure_, "no rank is left")) << failure_;
}

}  // namespace
}  // namespace sullae::testing

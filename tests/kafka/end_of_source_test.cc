// When who reads what is there now has read it.
#include "kafka/end_of_source.h"

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/variable.h"
#include "support/wait_until.h"

namespace sullae::kafka {
namespace {

class EndOfASource : public ::testing::Test {
 protected:
  // What comes of it when nothing comes for as long as brokers are waited for.
  static std::string after_the_limit(const Standing& standing) {
    EndOfSource end("the topic");
    EXPECT_FALSE(end.is_reached(standing, true));
    return testing::error_of<TimeoutError>(
        [&] { testing::wait_until([&] { return end.is_reached(standing, false); }); });
  }
  const testing::Variable timeout_{"SULLAE_KAFKA_TIMEOUT", "1"};
};

TEST_F(EndOfASource, IsWhereAllPartitionsWereRead) {
  EXPECT_TRUE(EndOfSource("the topic").is_reached({.partitions = 2, .is_at_end = true}, false));
}

TEST_F(EndOfASource, IsNotReachedByWhoNeverJoined) {
  EXPECT_EQ(after_the_limit({}),
            "the topic: the group has not taken this member in, nor said which partitions it has, "
            "within 1 s (SULLAE_KAFKA_TIMEOUT)");
}

TEST_F(EndOfASource, IsReachedWhereOthersHaveAllPartitions) {
  EXPECT_EQ(after_the_limit({.has_joined = true}), "nothing was thrown");
}

TEST_F(EndOfASource, IsNotReachedWherePartitionsStandStill) {
  EXPECT_TRUE(testing::contains(after_the_limit({.has_joined = true, .partitions = 2}),
                                "2 partitions were not read to their ends"));
}

}  // namespace
}  // namespace sullae::kafka

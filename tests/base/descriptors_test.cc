#include "base/descriptors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>

namespace sullae::testing {
namespace {

TEST(Descriptors, AreAllowedUpToTheHardLimitAndNeverFewer) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(allow_descriptors(70), 70U);
  EXPECT_EQ(allow_descriptors(10), 70U);
  EXPECT_EQ(allow_descriptors(kMostDescriptors), before.rlim_max);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Descriptors, AHintIsGivenWhereTheyAreUsedUp) {
  EXPECT_EQ(descriptors_hint(ENOENT), "");
  EXPECT_NE(descriptors_hint(EMFILE).find("ulimit -Hn"), std::string::npos);
}

}  // namespace
}  // namespace sullae::testing

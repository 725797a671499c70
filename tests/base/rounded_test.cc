#include "base/rounded.h"

#include <gtest/gtest.h>

#include <limits>

namespace sullae::testing {
namespace {

TEST(Rounded, HasNoDigitsThatNobodyMeasured) {
  EXPECT_EQ(rounded(2.4416350000000002), 2.441635);
  EXPECT_EQ(rounded(-0.1 - 0.2), -0.3);
  EXPECT_EQ(rounded(1e-12), 1e-12);
  EXPECT_EQ(rounded(123456789012.0), 123456789000.0);
  EXPECT_EQ(rounded(0), 0);
  EXPECT_EQ(rounded(std::numeric_limits<double>::infinity()),
            std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace sullae::testing

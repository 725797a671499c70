// What a round may cost elsewhere.
#include "online/judgement.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace online;

train::Measured measured(double before, double after, std::size_t samples) {
  const auto counted = static_cast<double>(samples);
  return {.before = {.loss = 1, .accuracy = before, .counted = counted},
          .after = {.loss = 0.5, .accuracy = after, .counted = counted},
          .samples = samples};
}

std::string reason(const train::Measured& earlier, const train::Measured& test) {
  return reason_against(
      {.changed = measured(0.5, 1, 10), .earlier = earlier, .test = test, .steps = 1}, {});
}

TEST(Judgement, ALittleMayBeLostElsewhere) {
  EXPECT_EQ(reason(measured(1, 1, 100), measured(0.8, 0.796, 10000)), "");
  EXPECT_TRUE(contains(reason(measured(1, 1, 100), measured(0.8, 0.79, 10000)), "worse elsewhere"));
}

// They would not show in a test set that is much larger.
TEST(Judgement, WhatEarlierRoundsHaveTaughtStaysLearnt) {
  const auto test = measured(0.8, 0.8, 10000);
  EXPECT_EQ(reason(measured(1, 0.8, 5), test), "") << "one of five";
  EXPECT_EQ(reason(measured(1, 0.6, 5), test),
            "worse on samples of earlier rounds: 100.00 % before, 60.00 % after, more than the "
            "tolerance of 0.5 (percentage points), and than one of 5");
  EXPECT_EQ(reason(measured(0.9, 0.9, 1), test), "");
  EXPECT_EQ(reason(measured(0, 0, 0), test), "") << "there are none";
}

}  // namespace
}  // namespace sullae::testing

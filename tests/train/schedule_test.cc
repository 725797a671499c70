// Learning rates, by hand.
#include "train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/errors.h"

namespace sullae::testing {
namespace {

using namespace train;

TrainOptions options(const std::string& schedule, int epochs = 10) {
  TrainOptions options;
  options.epochs = epochs;
  options.lr = 0.1;
  options.lr_schedule = schedule;
  return options;
}

TEST(Schedules, Constant) {
  const auto schedule = make_schedule(options("constant"), 100);
  for (const int step : {0, 1, 999, 2000}) EXPECT_DOUBLE_EQ(schedule(step), 0.1);
}

TEST(Schedules, LinearAndCosineFallToTheEnd) {
  auto o = options("linear");
  o.end_lr = 0.01;
  EXPECT_DOUBLE_EQ(make_schedule(o, 100)(500), 0.055);
  EXPECT_NEAR(make_schedule(o, 100)(1000), 0.01, 1e-12);
  o.lr_schedule = "cosine";
  EXPECT_NEAR(make_schedule(o, 100)(500), 0.055, 1e-12);
  EXPECT_NEAR(make_schedule(o, 100)(250), 0.01 + 0.09 * 0.5 * (1 + std::sqrt(0.5)), 1e-12);
}

// The published recipe: from 0.001 to 0.1 over 10 epochs, then polynomial of degree 2 over 80.
TEST(Schedules, WarmUpThenPolynomialDecayOfDegreeTwo) {
  auto o = options("polynomial", 90);
  o.warmup_epochs = 10;
  o.warmup_lr = 0.001;
  const auto schedule = make_schedule(o, 100);
  EXPECT_DOUBLE_EQ(schedule(0), 0.001);
  EXPECT_DOUBLE_EQ(schedule(500), 0.001 + 0.099 / 2);
  EXPECT_DOUBLE_EQ(schedule(1000), 0.1);
  EXPECT_DOUBLE_EQ(schedule(5000), 0.1 * 0.25);
  EXPECT_NEAR(schedule(9000), 0, 1e-15);
}

TEST(Schedules, StepsMultiply) {
  auto o = options("step", 90);
  o.lr_steps = "30,60.5,80";
  const auto schedule = make_schedule(o, 10);
  EXPECT_DOUBLE_EQ(schedule(299), 0.1);
  EXPECT_DOUBLE_EQ(schedule(300), 0.1 * 0.1);
  EXPECT_DOUBLE_EQ(schedule(604), 0.1 * 0.1);
  EXPECT_NEAR(schedule(605), 0.1 * 0.01, 1e-15);
  EXPECT_NEAR(schedule(899), 0.1 * 0.001, 1e-15);
}

TEST(Schedules, ScaleWithRanksWhenAsked) {
  auto o = options("constant");
  o.batch_size = 256;
  EXPECT_DOUBLE_EQ(scaled(o, 4).lr, 0.1);
  EXPECT_EQ(scaled(o, 4).batch_size, 256);
  o.scale_with_ranks = true;
  check_options(o, 4);
  EXPECT_DOUBLE_EQ(scaled(o, 4).lr, 0.4);
  EXPECT_EQ(scaled(o, 4).batch_size, 1024);
}

TEST(Schedules, SayWhatIsWrong) {
  EXPECT_TRUE(
      contains(error_of([] { make_schedule(options("sine"), 1); }),
               "--lr-schedule sine: expected one of constant, linear, cosine, polynomial, step"));
}

}  // namespace
}  // namespace sullae::testing

#include "pipeline/forecast.h"

#include <gtest/gtest.h>

namespace sullae::pipeline {
namespace {

// a and b, then c.
Pipeline three(int parallel = 0) {
  return {.name = "three",
          .file = {},
          .folder = {},
          .parallel = parallel,
          .steps = {{.name = "a", .run = "a"},
                    {.name = "b", .run = "b"},
                    {.name = "c", .run = "c", .after = {"a", "b"}}}};
}
RunRecord past(Time a, Time c) {
  return {.steps = {{"a", {.state = StepState::done, .started = 100, .ended = 100 + a}},
                    {"c", {.state = StepState::done, .started = 100, .ended = 100 + c}}}};
}
const Usual kUsual = {{"a", 10}, {"b", 30}, {"c", 5}};

TEST(PipelineForecast, UsuallyIsTheMedianOfTheLastTimes) {
  std::vector<RunRecord> runs = {past(10, 1), past(12, 1), past(500, 1)};
  runs[1].steps["c"].state = StepState::kept;
  runs[2].steps["c"].state = StepState::failed;
  const auto usual = usual_of(runs);
  EXPECT_EQ(usual.at("a"), 12);
  EXPECT_EQ(usual.at("c"), 1);
  EXPECT_FALSE(usual.contains("b"));
  for (int i = 0; i < 10; ++i) runs.insert(runs.begin(), past(20, 1));
  EXPECT_EQ(usual_of(runs).at("a"), 20) << "the last ten";
}

TEST(PipelineForecast, IsTheLongestWay) {
  RunRecord run;
  EXPECT_EQ(forecast(three(), run, kUsual, 1000).end, 1035);
  EXPECT_EQ(forecast(three(), run, kUsual, 1000).last, "c");
  EXPECT_EQ(forecast(three(1), run, kUsual, 1000).end, 1045) << "one after the other";
  run.steps["b"] = {.state = StepState::done};
  EXPECT_EQ(forecast(three(), run, kUsual, 1000).end, 1015);
  run.steps["a"] = {.state = StepState::running, .started = 993};
  EXPECT_EQ(forecast(three(), run, kUsual, 1000).end, 1008);
  run.steps["a"] = {.state = StepState::running, .started = 900};
  EXPECT_EQ(forecast(three(), run, kUsual, 1000).end, 1005) << "it takes longer than usual";
}

// What has to wait keeps no place from what can begin.
TEST(PipelineForecast, PlacesAreTakenByWhoCanBegin) {
  const Pipeline pipeline{.name = "places",
                          .file = {},
                          .folder = {},
                          .parallel = 2,
                          .steps = {{.name = "a", .run = "a"},
                                    {.name = "b", .run = "b", .after = {"a"}},
                                    {.name = "c", .run = "c"},
                                    {.name = "d", .run = "d"}}};
  EXPECT_EQ(forecast(pipeline, {}, {{"a", 6}, {"b", 1}, {"c", 1}, {"d", 4}}, 1000).end, 1007);
}

TEST(PipelineForecast, KnowsNothingOfWhatNeverWas) {
  EXPECT_EQ(forecast(three(), {}, {}, 1000).end, 1000);
}

}  // namespace
}  // namespace sullae::pipeline

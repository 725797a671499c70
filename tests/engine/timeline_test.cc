#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "engine/timeline_summary.h"
#include "sullae/adapter.h"
#include "sullae/communicator.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

class Timelines : public ::testing::Test {
 protected:
  std::filesystem::path file() const { return directory_.path() / "timeline.json"; }
  nlohmann::json read() const {
    std::ifstream stream(file());
    return nlohmann::json::parse(stream);
  }
  void write(const std::string& text) const { std::ofstream(file()) << text; }

  TemporaryDirectory directory_;
};

TEST_F(Timelines, HoldWhatEveryRankDidBetweenStartAndStop) {
  run_ranks({.size = 3}, [&](World& world) {
    world.barrier();
    world.start_timeline(file());
    EXPECT_THROW(world.start_timeline(file()), InputError);
    const auto start = std::chrono::steady_clock::now();
    std::vector<float> values(300, 1.0F);
    const std::vector<TensorBuffers> tensors = {{values.data(), values.data(), 100},
                                                {values.data() + 100, values.data() + 100, 200}};
    world.grouped_allreduce_async(tensors, DataType::float32, ReduceOp::sum, {.name = "group"})
        .wait();
    world.broadcast_async(values.data(), 300, DataType::float32, 0, {.name = "given"}).wait();
    AdapterView(world)
        .submit([](Communicator& c) { c.barrier(); }, {.name = "planned one", .bytes = 7})
        .wait();
    world.allreduce(values.data(), values.data(), 300, DataType::float32);
    world.mark("BACKWARD", "a span of the program's", start);
    world.stop_timeline();
    world.barrier();        // is not in the file
    world.stop_timeline();  // does nothing
  });
  std::map<int, std::multiset<std::string>> phases;
  const auto timeline = read();
  for (const auto& event : timeline["traceEvents"]) {
    if (event["ph"] != "X") continue;
    phases[event["pid"]].insert(event["name"]);
    EXPECT_GE(event["dur"], 0.0);
    EXPECT_GE(event["ts"], 0.0);
  }
  ASSERT_EQ(phases.size(), 3U);
  for (const auto& [rank, names] : phases) {
    EXPECT_EQ(names, (std::multiset<std::string>{"ALLREDUCE", "ALLREDUCE", "BACKWARD", "BROADCAST",
                                                 "COPY_IN", "COPY_OUT", "NEGOTIATE", "NEGOTIATE",
                                                 "QUEUE", "REDUCE_BUCKET"}))
        << rank;
  }
  const auto summary = summarize_timeline(file());
  EXPECT_EQ(summary.meetings, 3);
  EXPECT_EQ(summary.ranks.size(), 3U);
}

TEST_F(Timelines, AreNoLongerThanWhatViewersOpen) {
  ::testing::internal::CaptureStderr();
  run_ranks({.size = 1}, [&](World& world) {
    world.start_timeline(file());
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 250'007; ++i) world.mark("STEP", "a span", start);
    world.stop_timeline();
  });
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(contains(
      told, file().string() + ": holds this rank's first 250000 events; 7 more were left out"))
      << told;
  EXPECT_GE(read()["traceEvents"].size(), 250'000U);
}

TEST_F(Timelines, AreWrittenAtTheEndOfTheWorldAndShowWhoCameLast) {
  run_ranks({.size = 2}, [&](World& world) {
    world.start_timeline(file());
    for (int i = 0; i < 4; ++i) {
      if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds{100});
      float value = 1;
      world.allreduce_async(&value, &value, 1, DataType::float32, ReduceOp::sum, {.name = "x"})
          .wait();
    }
  });
  const auto summary = summarize_timeline(file());
  EXPECT_EQ(summary.meetings, 4);
  EXPECT_EQ(summary.ranks.at(1).last, 4);
  EXPECT_GT(summary.ranks.at(0).lost, 100e3);
  EXPECT_EQ(summary.slowest.at(0).name, "x");
  EXPECT_EQ(summary.slowest.at(0).count, 4);
}

TEST_F(Timelines, ShowThePipelinesBubble) {
  write(R"({"traceEvents": [
    {"ph": "X", "pid": 0, "cat": "training", "name": "PIPELINE", "ts": 0, "dur": 60, "args": {"name": "stage 0, micro-batch 0, forward"}},
    {"ph": "X", "pid": 0, "cat": "training", "name": "PIPELINE_STEP", "ts": 0, "dur": 100, "args": {"name": "1f1b"}},
    {"ph": "X", "pid": 1, "cat": "training", "name": "PIPELINE", "ts": 10, "dur": 90, "args": {"name": "stage 1, micro-batch 0, forward"}},
    {"ph": "X", "pid": 1, "cat": "training", "name": "PIPELINE_STEP", "ts": 0, "dur": 100, "args": {"name": "1f1b"}}
  ]})");
  const auto summary = summarize_timeline(file());
  EXPECT_DOUBLE_EQ(summary.ranks.at(0).bubble(), 0.4);
  EXPECT_NEAR(summary.ranks.at(1).bubble(), 0.1, 1e-12);
  EXPECT_TRUE(contains(format_summary(summary), "bubble: the rest, 25 % of all"));
  write(R"({"traceEvents": []})");
  EXPECT_FALSE(contains(format_summary(summarize_timeline(file())), "bubble"));
}

TEST_F(Timelines, AreSummedUp) {
  write(R"({"traceEvents": [
    {"ph": "M", "pid": 0, "name": "process_name"},
    {"ph": "X", "pid": 0, "cat": "training", "name": "BACKWARD", "ts": 0, "dur": 100, "args": {"name": ""}},
    {"ph": "X", "pid": 0, "cat": "planned", "name": "QUEUE", "ts": 10, "dur": 1, "args": {"name": "b"}},
    {"ph": "X", "pid": 0, "cat": "planned", "name": "REDUCE_BUCKET", "ts": 20, "dur": 80, "args": {"name": "b"}},
    {"ph": "X", "pid": 0, "cat": "training", "name": "WAIT", "ts": 100, "dur": 20, "args": {"name": ""}},
    {"ph": "X", "pid": 1, "cat": "planned", "name": "QUEUE", "ts": 15, "dur": 1, "args": {"name": "b"}},
    {"ph": "X", "pid": 1, "cat": "planned", "name": "REDUCE_BUCKET", "ts": 20, "dur": 90, "args": {"name": "b"}}
  ]})");
  const auto summary = summarize_timeline(file());
  EXPECT_DOUBLE_EQ(summary.ranks.at(0).hidden(), 0.75);
  EXPECT_DOUBLE_EQ(summary.ranks.at(0).lost, 5);
  EXPECT_EQ(summary.ranks.at(1).last, 1);
  EXPECT_DOUBLE_EQ(summary.slowest.at(0).total, 90);
  EXPECT_TRUE(contains(format_summary(summary), "REDUCE_BUCKET  b")) << format_summary(summary);
}

TEST_F(Timelines, SayWhatIsWrong) {
  EXPECT_TRUE(contains(error_of([&] { summarize_timeline(file()); }), "cannot be opened"));
  write("{}");
  EXPECT_TRUE(
      contains(error_of([&] { summarize_timeline(file()); }), "is no timeline of Sullae's"));
  run_ranks({.size = 2}, [&](World& world) {
    const auto absent = directory_.path() / "absent" / "timeline.json";
    const auto error = error_of([&] { world.start_timeline(absent); });
    EXPECT_TRUE(contains(error, absent.string() + " cannot be written")) << error;
    world.stop_timeline();  // it is not on
    world.barrier();
  });
}

TEST(TimelineSummary, SaysWhatCannotBeRead) {
  EXPECT_TRUE(contains(error_of([] { summarize_timeline("/tmp"); }),
                       "timeline /tmp: is a folder, expected a file"));
  EXPECT_TRUE(contains(error_of([] { summarize_timeline("/none"); }),
                       "timeline /none: cannot be opened: No such file"));
}

}  // namespace
}  // namespace sullae::testing

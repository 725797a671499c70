#include "engine/autotune/autotuner.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "sullae/error.h"
#include "sullae/sullae.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using engine::Autotuner;
using engine::Settings;
using engine::SuccessiveHalving;

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(SuccessiveHalving, FindsTheBestOfAnyNumber) {
  for (const std::size_t candidates : {1, 2, 3, 7, 48}) {
    for (std::size_t best = 0; best < candidates; ++best) {
      SuccessiveHalving search(candidates);
      std::size_t measurements = 0;
      for (; !search.done(); ++measurements)
        search.score(search.current() == best ? 2.0 : 1.0 / static_cast<double>(measurements + 1));
      EXPECT_EQ(search.current(), best);
      EXPECT_LE(measurements, 2 * candidates + 8);
    }
  }
}

// One good moment of a bad candidate, and one bad moment of the best, do not decide.
TEST(SuccessiveHalving, GoesByTheMedian) {
  SuccessiveHalving search(4);
  std::vector<int> measured(4);
  while (!search.done()) {
    const std::size_t current = search.current();
    const bool odd_moment = measured[current]++ == 1;
    search.score(current == 2 ? (odd_moment ? 5.0 : 10.0) : (odd_moment ? 9.0 : 1.0 + current));
  }
  EXPECT_EQ(search.current(), 2U);
}

TEST(Autotuner, TriesEveryCombinationOnce) {
  const Settings now{.fusion_threshold = 1 << 20,
                     .cycle_time = std::chrono::microseconds{200},
                     .allreduce_algorithm = "auto"};
  const auto all = engine::candidates_around(now, {"auto", "ring"});
  EXPECT_EQ(all.front(), now);
  EXPECT_EQ(all.size(), 4U * 2U * 2U);  // one of the three cycle times is set already
  for (const Settings& one : all) EXPECT_LE(one.fusion_threshold, now.fusion_threshold);
}

// A job whose steps take a time that depends on the settings, on a clock of its own.
TEST(Autotuner, KeepsWhatIsFastestAndWritesWhatItTried) {
  const TemporaryDirectory directory;
  const auto log = directory.path() / "autotune.csv";
  const Settings start{.fusion_threshold = 1 << 20,
                       .cycle_time = std::chrono::microseconds{1000},
                       .allreduce_algorithm = "auto"};
  const auto all = engine::candidates_around(start, {"auto", "ring", "halving_doubling"});
  const Settings fastest{.fusion_threshold = (1 << 20) / 8,
                         .cycle_time = std::chrono::microseconds{200},
                         .allreduce_algorithm = "ring"};
  Autotuner tuner(all, {.on = true, .log = log, .warmup_samples = 2, .steps_per_sample = 4});
  Settings set = start;
  auto now = Autotuner::Clock::time_point{};
  engine::Request request;
  request.signature = {.operation = Operation::allreduce, .count = 1000};
  int steps = 0;
  for (; !tuner.done() && steps < 100000; ++steps) {
    now += std::chrono::milliseconds{set == fastest ? 5 : 6 + steps % 3};
    for (const char* name : {"a", "b", "c"}) {
      request.name = name;
      if (auto next = tuner.note(request, now)) set = *next;
    }
  }
  EXPECT_TRUE(tuner.done());
  EXPECT_EQ(set, fastest);
  const auto lines = lines_of(log);
  EXPECT_EQ(lines.front(),
            "sample,fusion_threshold,cycle_time_ms,allreduce_algorithm,mbytes_per_s");
  EXPECT_EQ(lines.back(), "best,131072,0.2,ring,0.600");  // 3 kB in 5 ms
  EXPECT_GE(lines.size(), 2 + all.size());
}

TEST(Autotuner, SaysWhereItsLogCannotBe) {
  EXPECT_EQ(error_of([] {
              Autotuner({{}, {}}, {.on = true, .log = "/nowhere/at/all.csv"});
            }),
            "SULLAE_AUTOTUNE_LOG='/nowhere/at/all.csv': cannot be written");
}

TEST(Autotuner, SaysThatItHasChosenNothing) {
  const auto said_after = [](int operations) {
    ::testing::internal::CaptureStderr();
    {
      Autotuner tuner({{}, {.fusion_threshold = 1}}, {.on = true});
      engine::Request request;
      request.name = "a";
      for (int i = 0; i < operations; ++i) tuner.note(request, Autotuner::Clock::now());
    }
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_TRUE(contains(said_after(0), "autotune: there was nothing to tune: no operation in the"));
  EXPECT_TRUE(contains(said_after(3), "autotune: the end came after 0 samples, before a choice"));
}

class AutotunedJob : public ::testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(Settings, AutotunedJob, ::testing::ValuesIn(every_setting()),
                         [](const auto& setting) { return setting.param.name; });

// The whole search while operations run, which stay right whatever the settings.
TEST_P(AutotunedJob, StaysRightAndEndsWithTheBest) {
  const TemporaryDirectory directory;
  const auto log = directory.path() / "autotune.csv";
  ::setenv("SULLAE_AUTOTUNE", "1", 1);
  ::setenv("SULLAE_AUTOTUNE_LOG", log.c_str(), 1);
  ::setenv("SULLAE_AUTOTUNE_WARMUP_SAMPLES", "1", 1);
  ::setenv("SULLAE_AUTOTUNE_STEPS_PER_SAMPLE", "1", 1);
  ::setenv("SULLAE_FUSION_THRESHOLD", "65536", 1);
  run_ranks(GetParam().ranks, [](World& world) {
    const std::vector<std::size_t> counts = {1, 100, 5000, 40000};
    for (int step = 0; step < 250; ++step) {
      std::vector<std::vector<int>> values;
      std::vector<Handle> handles;
      for (const std::size_t count : counts) {
        values.emplace_back(count, step + world.rank());
        handles.push_back(world.allreduce_async(values.back().data(), values.back().data(), count,
                                                DataType::int32, ReduceOp::sum,
                                                {.name = std::to_string(count)}));
      }
      const int sum = world.size() * step + world.size() * (world.size() - 1) / 2;
      for (std::size_t i = 0; i < counts.size(); ++i) {
        handles[i].wait();
        ASSERT_EQ(values[i].front(), sum);
        ASSERT_EQ(values[i].back(), sum);
      }
    }
  });
  for (const char* variable :
       {"SULLAE_AUTOTUNE", "SULLAE_AUTOTUNE_LOG", "SULLAE_AUTOTUNE_WARMUP_SAMPLES",
        "SULLAE_AUTOTUNE_STEPS_PER_SAMPLE", "SULLAE_FUSION_THRESHOLD"}) {
    ::unsetenv(variable);
  }
  if (GetParam().ranks.size == 1) return;  // nothing to tune
  const auto lines = lines_of(log);
  ASSERT_GE(lines.size(), 14U);
  EXPECT_TRUE(lines.back().starts_with("best,")) << lines.back();
}

}  // namespace
}  // namespace sullae::testing

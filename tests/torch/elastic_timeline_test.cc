// One timeline of a job whose worlds come one after the other.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "support/errors.h"
#include "support/program.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

struct Event {
  double start = 0;
  int rank = 0;
  std::string name;
};

// By world.
std::map<int, std::vector<Event>> events_of(const std::filesystem::path& file,
                                            const std::string& phase) {
  std::map<int, std::vector<Event>> events;
  std::ifstream stream(file);
  const auto timeline = nlohmann::json::parse(stream);
  for (const auto& one : timeline["traceEvents"]) {
    if (one["ph"] != "X" || one["name"] != phase) continue;
    events[one["args"]["world"]].push_back(
        {.start = one["ts"], .rank = one["pid"], .name = one["args"]["name"]});
  }
  return events;
}

double mean_start(const std::vector<Event>& events) {
  double sum = 0;
  for (const Event& event : events) sum += event.start;
  return sum / static_cast<double>(events.size());
}

void train(const std::filesystem::path& file, const std::string& what) {
  const TemporaryDirectory folder;
  const auto result =
      run_program({sullae_program(), "run", "--timeline", file.string(), "-np", "3", "--min-np",
                   "1", "--cooldown", "0.1", ELASTIC_PROGRAM, folder.path().string(), "60",
                   "--pause", "10", "--at", fmt::format("1:20:{}", what)},
                  {{"OMP_NUM_THREADS", "1"}});
  ASSERT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_FALSE(contains(result.standard_error, "timeline:")) << result.standard_error;
}

TEST(ElasticTimeline, HoldsAllWorldsAndWhyTheyChanged) {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "timeline.json";
  // What an earlier job has left is replaced. Of a death the launcher or a rank that waits is the
  // first to know.
  for (const auto& [what, reason] :
       {std::pair{"kill", "was killed by signal 9|died while"}, std::pair{"term", " leaves"}}) {
    train(file, what);
    const auto changes = events_of(file, "WORLD_CHANGE");
    ASSERT_GE(changes.size(), 2U) << what;
    ASSERT_EQ(changes.count(0), 1U);
    EXPECT_TRUE(contains(changes.at(0).at(0).name, "generation 0: 3 ranks")) << what;
    EXPECT_TRUE(contains(changes.at(1).at(0).name, "generation 1: 2 ranks: ")) << what;
    EXPECT_TRUE(std::regex_search(changes.at(1).at(0).name, std::regex(reason)))
        << changes.at(1).at(0).name;

    // Each world has the reductions of its ranks, and comes after the one before.
    const auto steps = events_of(file, "REDUCE_BUCKET");
    ASSERT_EQ(steps.count(0) + steps.count(1), 2U) << what;
    std::set<int> ranks;
    for (const Event& event : steps.at(1)) ranks.insert(event.rank);
    EXPECT_EQ(ranks, (std::set<int>{0, 1})) << what;
    EXPECT_LT(mean_start(steps.at(0)), mean_start(steps.at(1))) << what;
    EXPECT_GE(steps.at(0).size(), 2U * 20) << what;

    const auto summary = run_program({sullae_program(), "timeline", file.string()});
    EXPECT_EQ(summary.exit_code, 0) << summary.standard_error;
    EXPECT_TRUE(contains(summary.standard_output, "REDUCE_BUCKET")) << summary.standard_output;
  }
}

}  // namespace
}  // namespace sullae::testing

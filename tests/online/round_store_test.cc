#include "online/round_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "online/lock.h"
#include "online/trigger.h"
#include "support/errors.h"
#include "support/temporary_directory.h"

namespace sullae::testing {
namespace {

using namespace online;

class RoundStoreTest : public ::testing::Test {
 protected:
  TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "examples.db";
};

TEST_F(RoundStoreTest, KeepsRoundsAsTheyAre) {
  RoundStore store(file_);
  EXPECT_TRUE(store.newest(10).empty());
  EXPECT_EQ(store.attempted_revision(), 0);
  Round round{.trigger = "count", .parent = 3, .since = 5, .revision = 12, .started = 1};
  round.authors = {{"김", 4}, {"lee", 3}};
  store.begin(round);
  EXPECT_EQ(round.id, 1);
  EXPECT_EQ(store.unfinished().size(), 1U);
  round.state = RoundState::published;
  round.version = 4;
  round.result.changed = {.before = {.loss = 0.5, .accuracy = 0.25},
                          .after = {.loss = 0.1, .accuracy = 1},
                          .samples = 7};
  store.update(round);
  Round second{.trigger = "age", .revision = 20};
  store.begin(second);
  const auto rounds = RoundStore(file_).newest(10);
  ASSERT_EQ(rounds.size(), 2U);
  EXPECT_EQ(rounds[0].id, 2);
  EXPECT_EQ(json_of(rounds[1]), json_of(round));
  EXPECT_EQ(json_of(rounds[1])["state"], "published");
  EXPECT_EQ(store.newest(1).size(), 1U);
  EXPECT_EQ(store.attempted_revision(), 20);
  second.state = RoundState::interrupted;
  store.update(second);
  EXPECT_EQ(store.attempted_revision(), 12) << "what was interrupted is tried again";
  EXPECT_EQ(store.counts(),
            (std::map<std::string, std::int64_t>{{"interrupted", 1}, {"published", 1}}));
  EXPECT_TRUE(store.unfinished().empty());
}

// JSON has no number for it.
TEST_F(RoundStoreTest, ALossThatIsNoNumberIsKept) {
  RoundStore store(file_);
  Round round{.trigger = "count"};
  round.result.changed.before = {.loss = 0.5, .accuracy = 0.25};
  round.result.changed.after = {.loss = std::numeric_limits<double>::quiet_NaN(), .accuracy = 0};
  round.result.test.after.loss = std::numeric_limits<double>::infinity();
  store.begin(round);
  const auto rounds = store.newest(1);
  ASSERT_EQ(rounds.size(), 1U);
  EXPECT_TRUE(std::isnan(rounds[0].result.changed.after.loss));
  EXPECT_FALSE(std::isfinite(rounds[0].result.test.after.loss));
  EXPECT_EQ(rounds[0].result.changed.before.loss, 0.5);
}

TEST_F(RoundStoreTest, ARoundIsSeenWholeOrNotAtAll) {
  constexpr std::int64_t kRounds = 100;
  RoundStore store(file_);
  std::jthread learner([&] {
    RoundStore own(file_);
    for (std::int64_t i = 0; i < kRounds; ++i) {
      Round round{.trigger = "count", .revision = i};
      own.begin(round);
    }
  });
  std::size_t seen = 0;
  while (seen < kRounds) {
    const auto rounds = store.newest(kRounds);
    for (const Round& round : rounds) ASSERT_EQ(round.trigger, "count");
    seen = rounds.size();
  }
}

TEST_F(RoundStoreTest, KnowsWhichCallsAreAnswered) {
  RoundStore store(file_);
  EXPECT_EQ(store.last_call(), 0);
  EXPECT_EQ(RoundStore(file_).call("kim"), 1) << "another process";
  EXPECT_EQ(store.call("lee"), 2);
  EXPECT_EQ(store.last_call(), 2);
  EXPECT_EQ(store.answered_call(), 0);
  Round round{.call = 2};
  store.begin(round);
  EXPECT_EQ(store.answered_call(), 2);
  round.state = RoundState::interrupted;
  store.update(round);
  EXPECT_EQ(store.answered_call(), 0);
}

TEST(Trigger, CountsWaitsAndIsCalled) {
  OnlineConfig config;
  config.min_examples = 10;
  config.max_age = std::chrono::seconds(60);
  constexpr std::int64_t kNow = 1'000'000;
  EXPECT_EQ(trigger_of({}, config, kNow), "");
  EXPECT_EQ(trigger_of({.called = true}, config, kNow), "call");
  EXPECT_EQ(trigger_of({.examples = 9, .oldest = kNow - 59'999}, config, kNow), "");
  EXPECT_EQ(trigger_of({.examples = 10, .oldest = kNow}, config, kNow), "count");
  EXPECT_EQ(trigger_of({.examples = 1, .oldest = kNow - 60'000}, config, kNow), "age");
  config.max_age = std::chrono::seconds(0);
  EXPECT_EQ(trigger_of({.examples = 1, .oldest = 0}, config, kNow), "");
}

TEST(OnlineLockTest, OneProcessAtATime) {
  const TemporaryDirectory directory;
  EXPECT_FALSE(OnlineLock::is_held(directory.path()));
  {
    const OnlineLock lock(directory.path());
    EXPECT_TRUE(OnlineLock::is_held(directory.path()));
    EXPECT_EQ(error_of([&] { OnlineLock second(directory.path()); }),
              directory.path().string() + ": another process learns for this model");
  }
  EXPECT_FALSE(OnlineLock::is_held(directory.path()));
  EXPECT_TRUE(contains(error_of([] { OnlineLock lock("/nonexistent"); }),
                       "/nonexistent/.online.lock: No such file or directory"));
}

}  // namespace
}  // namespace sullae::testing

// Any order of events.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "launch/elastic/trial.h"
#include "support/errors.h"

namespace sullae::testing {
namespace {

// Whatever happens, a world has members that wait for it, each once and no more than may be, and a
// job with a survivor goes on.
TEST(Membership, TakesAnyOrderOfEvents) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Trial trial;
    std::mt19937 random(seed);
    const auto draw = [&](int below) {
      return static_cast<int>(random() % static_cast<unsigned>(below));
    };
    const int most = 2 + draw(5);
    trial.begin({.start = 2,
                 .min_ranks = 1,
                 .max_ranks = most,
                 .first_cooldown = Milliseconds{draw(3) * 100},
                 .last_cooldown = Milliseconds{1000}},
                {{"a", 2}, {"b", most}});
    std::set<int> alive;
    std::set<int> out;  // of their world, or not in one yet
    std::size_t seen = 0;
    int formed = 0;
    for (int event = 0; event < 300 && trial.failure_.empty(); ++event) {
      for (; seen < trial.started_.size(); ++seen) {
        alive.insert(trial.started_[seen].worker);
        out.insert(trial.started_[seen].worker);
      }
      for (; formed < static_cast<int>(trial.formed_.size()); ++formed) {
        const auto& made = trial.formed_[static_cast<std::size_t>(formed)].generation.workers;
        EXPECT_LE(static_cast<int>(made.size()), most);
        EXPECT_EQ(std::set<int>(made.begin(), made.end()).size(), made.size());
        for (const int worker : made) EXPECT_EQ(out.erase(worker), 1U) << "seed " << seed;
      }
      if (alive.empty()) break;
      const int worker = *std::next(alive.begin(), draw(static_cast<int>(alive.size())));
      switch (draw(8)) {
        case 0:
          // One survives, or the job could not go on.
          if (trial.membership_->generation().number < 0 || alive.size() < 2) break;
          alive.erase(worker);
          out.erase(worker);
          trial.ended(worker, Ending::failed);
          break;
        case 1:
          trial.membership_->set_hosts({{"a", 1 + draw(2)}, {"b", 1 + draw(most)}}, trial.now_);
          trial.take();
          break;
        case 2:
          trial.pass(Milliseconds{draw(2000)});
          break;
        default:
          out.insert(worker);
          trial.ready(worker);
      }
    }
    // When those end who were asked to, and all others say that they are ready, there is a world.
    if (!trial.failure_.empty()) {
      EXPECT_TRUE(contains(trial.failure_, "no rank is left")) << trial.failure_;
      continue;
    }
    for (int round = 0; round < 5; ++round) {
      for (; seen < trial.started_.size(); ++seen) alive.insert(trial.started_[seen].worker);
      for (const int worker : trial.stopped_) {
        if (alive.erase(worker) > 0) trial.ended(worker, Ending::left);
      }
      for (const int worker : alive) trial.ready(worker);
      trial.pass(Milliseconds{1500});
    }
    EXPECT_FALSE(trial.formed_.empty()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace sullae::testing

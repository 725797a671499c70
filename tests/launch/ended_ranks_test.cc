// What the ranks that are left hear of those that have ended.
#include "launch/ended_ranks.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <vector>

#include "support/environment.h"
#include "transport/store/store_server.h"

namespace sullae::testing {
namespace {

TEST(EndedRanks, LeaveNumbersToTheOthers) {
  const std::vector<int> ended{3, 0};
  EXPECT_EQ(rank_without({}, 2), 2);
  EXPECT_EQ(rank_without(ended, 1), 0);
  EXPECT_EQ(rank_without(ended, 2), 1);
  EXPECT_EQ(rank_without(ended, 4), 2);
  EXPECT_EQ(joining_key_without({}, 2), "0/host/2");
  EXPECT_EQ(joining_key_without(ended, 2), "2/host/1");
}

TEST(EndedRanks, AreHeardInTheirOrderAlsoByWhoComesLate) {
  StoreServer server(StoreAddress::parse("127.0.0.1:0"), "secret");
  const auto environment =
      environment_of({{"SULLAE_STORE", "127.0.0.1:" + std::to_string(server.port())},
                      {"SULLAE_JOB_SECRET", "secret"}});
  server.set(ended_rank_key(0), "4");
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int> heard;
  const EndedRanks ranks(environment, [&](int rank) {
    const std::lock_guard lock(mutex);
    heard.push_back(rank);
    changed.notify_all();
  });
  server.set(ended_rank_key(2), "0");
  server.set(ended_rank_key(1), "7");
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return heard.size() == 3; });
  EXPECT_EQ(heard, (std::vector<int>{4, 7, 0}));
}

}  // namespace
}  // namespace sullae::testing

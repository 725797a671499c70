// The order of an epoch.
#include "sullae/data/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace sullae::testing {
namespace {

using namespace data;

TEST(EpochOrder, HoldsEverySampleOnce) {
  for (const std::size_t size : {0, 1, 2, 7, 64, 65, 1009}) {
    for (const std::size_t buffer : {0, 1, 10, 100, 5000}) {
      for (const std::size_t run : {0, 1, 3, 64}) {
        auto order = epoch_order(size, {.seed = 3, .shuffle_buffer = buffer, .run = run}, 2);
        std::ranges::sort(order);
        std::vector<std::size_t> all(size);
        std::iota(all.begin(), all.end(), std::size_t{0});
        EXPECT_EQ(order, all) << size << ' ' << buffer << ' ' << run;
      }
    }
  }
}

TEST(EpochOrder, DependsOnSeedAndEpochAlone) {
  const auto order = epoch_order(100, {.seed = 1}, 1);
  EXPECT_EQ(order, epoch_order(100, {.seed = 1}, 1));
  EXPECT_NE(order, epoch_order(100, {.seed = 1}, 2));
  EXPECT_NE(order, epoch_order(100, {.seed = 2}, 1));
  const auto plain = epoch_order(100, {.shuffle = false}, 1);
  EXPECT_TRUE(std::ranges::is_sorted(plain));
}

TEST(EpochOrder, ABoundedBufferReadsFewPlacesAtATime) {
  const std::size_t run = 50;
  const auto order = epoch_order(10000, {.seed = 1, .shuffle_buffer = 500, .run = run}, 0);
  EXPECT_FALSE(std::ranges::is_sorted(order));
  // What is needed within a window lies in that many runs.
  for (std::size_t start = 0; start < order.size(); start += 500) {
    std::vector<std::size_t> runs;
    for (std::size_t i = start; i < start + 500; ++i) runs.push_back(order[i] / run);
    std::ranges::sort(runs);
    const auto distinct = std::ranges::unique(runs).begin() - runs.begin();
    EXPECT_EQ(distinct, 10);
  }
}

TEST(RandomNumbers, AreEvenlySpread) {
  std::vector<int> counts(10);
  double sum = 0;
  double squares = 0;
  for (std::uint64_t position = 0; position < 10000; ++position) {
    Random random(1, 2, position);  // streams of neighbours must not be alike
    ++counts[random.below(10)];
    const double value = random.uniform();
    sum += value;
    squares += value * value;
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
  EXPECT_NEAR(sum / 10000, 1 / 2., 0.02);
  EXPECT_NEAR(squares / 10000, 1 / 3., 0.02);
}

}  // namespace
}  // namespace sullae::testing

#include "ps/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace sullae::ps {
namespace {

std::vector<std::size_t> loads(const std::vector<Slice>& slices, int servers) {
  std::vector<std::size_t> loads(static_cast<std::size_t>(servers));
  for (const Slice& slice : slices)
    loads[static_cast<std::size_t>(slice.server)] += slice.elements();
  return loads;
}

// Every element is in one slice.
void expect_whole(const std::vector<Slice>& slices, const std::vector<std::size_t>& tensors) {
  std::vector<std::size_t> at(tensors.size());
  for (const Slice& slice : slices) {
    for (const Range& range : slice.ranges) {
      EXPECT_EQ(range.from, at[range.tensor]);
      at[range.tensor] = range.to;
    }
  }
  EXPECT_EQ(at, tensors);
}

TEST(Placement, GivesEveryElementToOneServer) {
  for (const std::vector<std::size_t>& tensors : {std::vector<std::size_t>{1},
                                                  {0},
                                                  {0, 3, 0},
                                                  {7, 11, 13},
                                                  {5000000, 3, 1},
                                                  {16384, 16385, 1},
                                                  {1, 1, 1, 1, 1}}) {
    for (const int servers : {1, 2, 3, 7}) {
      const auto slices = place(tensors, servers);
      expect_whole(slices, tensors);
      for (const Slice& slice : slices) {
        EXPECT_LT(slice.server, servers);
        EXPECT_LE(slice.elements() * sizeof(float), std::size_t{4} << 20);
      }
    }
  }
}

TEST(Placement, BalancesThoughOneTensorIsNearlyAll) {
  std::vector<std::size_t> tensors(50, 20000);
  tensors.push_back(9000000);
  for (const int servers : {2, 3, 5}) {
    const auto all = loads(place(tensors, servers), servers);
    const auto mean = std::accumulate(all.begin(), all.end(), std::size_t{0}) / all.size();
    EXPECT_LE(std::ranges::max(all), mean + mean / 10);
    EXPECT_GE(std::ranges::min(all), mean - mean / 10);
  }
}

TEST(Placement, PutsSmallTensorsTogether) {
  EXPECT_EQ(place(std::vector<std::size_t>(100, 10), 1).size(), 1U);
}

}  // namespace
}  // namespace sullae::ps

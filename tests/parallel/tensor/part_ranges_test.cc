#include "parallel/tensor/part_ranges.h"

#include <gtest/gtest.h>

namespace sullae::testing {
namespace {

using Ranges = std::vector<IndexRange>;

std::vector<std::vector<std::size_t>> numbers(const std::vector<Part>& parts) {
  std::vector<std::vector<std::size_t>> all;
  for (const Part& part : parts)
    all.push_back({static_cast<std::size_t>(part.rank), part.from, part.to});
  return all;
}
using Numbers = std::vector<std::vector<std::size_t>>;

TEST(PartRanges, LieInMemoryRowByRow) {
  EXPECT_EQ(elements_in({4, 3}, 0, {{1, 3}}), (Ranges{{3, 9}}));
  EXPECT_EQ(elements_in({2, 5}, 1, {{0, 1}, {3, 5}}), (Ranges{{0, 1}, {3, 5}, {5, 6}, {8, 10}}));
  EXPECT_EQ(elements_in({2, 3, 2}, 1, {{1, 2}}), (Ranges{{2, 4}, {8, 10}}));
  EXPECT_EQ(elements_in({0, 3}, 1, {{1, 2}}), Ranges{});
}

TEST(PartRanges, SomeOfThemAreCountedOneBehindTheOther) {
  const Ranges ranges = {{0, 1}, {3, 5}, {5, 6}, {8, 10}};
  EXPECT_EQ(some_of(ranges, {0, 6}), ranges);
  EXPECT_EQ(some_of(ranges, {2, 5}), (Ranges{{4, 5}, {5, 6}, {8, 9}}));
  EXPECT_EQ(some_of(ranges, {0, 0}), Ranges{});
  EXPECT_EQ(some_of({}, {0, 3}), Ranges{});
}

TEST(PartRanges, AreCutSoThatNoTwoOverlapInPart) {
  // Ranks 0 and 1 divide at 5, ranks 2 and 3 at 3.
  const auto parts = cut_alike({{0, 0, 5}, {1, 5, 8}, {2, 0, 3}, {3, 3, 8}});
  EXPECT_EQ(numbers(parts),
            (Numbers{{0, 0, 3}, {2, 0, 3}, {0, 3, 5}, {3, 3, 5}, {1, 5, 8}, {3, 5, 8}}));
  EXPECT_TRUE(are_whole(parts, 8));
  EXPECT_FALSE(are_whole(parts, 9));
  EXPECT_EQ(numbers(cut_alike({{1, 4, 6}, {0, 0, 4}})), (Numbers{{0, 0, 4}, {1, 4, 6}}));
  EXPECT_FALSE(are_whole(cut_alike({{0, 0, 3}, {1, 4, 6}}), 6));
  EXPECT_FALSE(are_whole(cut_alike({{1, 1, 6}}), 6));
  EXPECT_TRUE(cut_alike({}).empty());
  EXPECT_TRUE(are_whole({}, 0));
}

}  // namespace
}  // namespace sullae::testing

// Every element of a bucket belongs to one rank.
#include "parallel/parameter_shards.h"

#include <gtest/gtest.h>

#include <numeric>

namespace sullae {
namespace {

TEST(ParameterShards, AreAsEqualAsLinesAllow) {
  for (const int ranks : {1, 2, 3, 7}) {
    for (const std::size_t elements :
         {std::size_t{0}, std::size_t{16}, std::size_t{160}, std::size_t{16 * 1009}}) {
      const auto counts = shard_counts(elements, 4, ranks);
      ASSERT_EQ(counts.size(), static_cast<std::size_t>(ranks));
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), elements);
      EXPECT_LE(counts.front() - counts.back(), 16U);
      for (const std::size_t count : counts) EXPECT_EQ(count % 16, 0U);
    }
  }
}

TEST(ParameterShards, HaveEachElementOnce) {
  const std::vector<std::size_t> sizes = {1, 100, 16, 0, 7, 333};
  EXPECT_EQ(starts_of(sizes, 4), (std::vector<std::size_t>{0, 16, 128, 144, 144, 160}));
  const std::size_t elements = 160 + 336;
  for (const int ranks : {1, 2, 3, 5, 40}) {
    std::vector<std::vector<int>> seen;
    for (const std::size_t size : sizes) seen.emplace_back(size, 0);
    std::size_t begin = 0;
    for (const std::size_t count : shard_counts(elements, 4, ranks)) {
      for (const ShardPiece& piece : pieces_of(sizes, 4, begin, begin + count)) {
        EXPECT_EQ(begin + piece.at, starts_of(sizes, 4)[piece.place] + piece.from);
        for (std::size_t i = piece.from; i < piece.to; ++i) ++seen[piece.place][i];
      }
      begin += count;
    }
    for (const auto& parameter : seen) {
      for (const int count : parameter) EXPECT_EQ(count, 1) << ranks;
    }
  }
}

}  // namespace
}  // namespace sullae

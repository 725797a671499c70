#include "data/columnar/kept_memory.h"

#include <arrow/status.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace sullae::testing {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::uint8_t* block_of(std::int64_t size) {
  std::uint8_t* block = nullptr;
  EXPECT_TRUE(data::kept_memory()->Allocate(size, &block).ok());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0U);
  std::memset(block, 1, static_cast<std::size_t>(size));
  return block;
}

TEST(KeptMemory, GivesALargeBlockAgain) {
  auto& pool = *data::kept_memory();
  std::uint8_t* const first = block_of(4 * kMiB);
  pool.Free(first, 4 * kMiB);
  const auto allocated = pool.bytes_allocated();
  std::uint8_t* const again = block_of(3 * kMiB);
  EXPECT_EQ(again, first);
  EXPECT_EQ(pool.bytes_allocated(), allocated);
  std::uint8_t* const other = block_of(3 * kMiB);
  EXPECT_NE(other, first);
  pool.Free(again, 3 * kMiB);
  pool.Free(other, 3 * kMiB);
}

TEST(KeptMemory, GrowsAndShrinksWithWhatIsInIt) {
  auto& pool = *data::kept_memory();
  for (const auto& [from, to] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 100},
                                                          {100, kMiB},
                                                          {kMiB, 5 * kMiB},
                                                          {5 * kMiB, 4 * kMiB},
                                                          {4 * kMiB, 10},
                                                          {10, 0}}) {
    std::uint8_t* block = block_of(from);
    ASSERT_TRUE(pool.Reallocate(from, to, &block).ok());
    for (std::int64_t i = 0; i < std::min(from, to); ++i) ASSERT_EQ(block[i], 1) << from << to;
    std::memset(block, 2, static_cast<std::size_t>(to));
    pool.Free(block, to);
  }
}

TEST(KeptMemory, KeepsNoMoreThanItSays) {
  auto& pool = *data::kept_memory();
  pool.ReleaseUnused();
  const auto before = pool.bytes_allocated();
  std::vector<std::uint8_t*> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(block_of(10 * kMiB));
  for (auto* const block : blocks) pool.Free(block, 10 * kMiB);
  EXPECT_LE(pool.bytes_allocated() - before, 128 * kMiB);
  EXPECT_GE(pool.bytes_allocated() - before, 100 * kMiB);
  pool.ReleaseUnused();
  EXPECT_EQ(pool.bytes_allocated(), before);
}

TEST(KeptMemory, IsForThreads) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int round = 0; round < 100; ++round) {
        const std::int64_t size = (i + round % 3 + 1) * kMiB / 2;
        auto* const block = block_of(size);
        data::kept_memory()->Free(block, size);
      }
    });
  }
}

}  // namespace
}  // namespace sullae::testing

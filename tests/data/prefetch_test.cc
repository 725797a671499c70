// Batches that worker threads fill: in order, whole, and with the error of the sample that failed.
#include "sullae/data/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support/errors.h"

namespace sullae::testing {
namespace {

using Batch = std::vector<std::size_t>;
using Prefetcher = data::Prefetcher<Batch>;

Prefetcher::Calls numbers(std::size_t total, std::size_t batch_size) {
  return {.make =
              [=](std::size_t index) {
                const std::size_t count = std::min(batch_size, total - index * batch_size);
                return std::pair(Batch(count), count);
              },
          .fill =
              [=](Batch& batch, std::size_t index, std::size_t slot) {
                batch[slot] = index * batch_size + slot + 1;
              }};
}

TEST(Prefetch, GivesEveryBatchInOrder) {
  for (const std::size_t workers : {0, 1, 2, 5}) {
    for (const std::size_t total : {0, 1, 7, 64, 1009}) {
      for (const std::size_t depth : {1, 2, 9}) {
        Prefetcher prefetcher((total + 6) / 7, numbers(total, 7),
                              {.workers = workers, .depth = depth});
        std::size_t next = 0;
        while (const auto batch = prefetcher.next()) {
          for (const std::size_t value : *batch) ASSERT_EQ(value, ++next);
        }
        EXPECT_EQ(next, total);
        EXPECT_EQ(prefetcher.next(), std::nullopt);
      }
    }
  }
}

TEST(Prefetch, StopsInTheMiddle) {
  Prefetcher prefetcher(1000, numbers(7000, 7), {.workers = 3});
  EXPECT_EQ(prefetcher.next()->front(), 1U);
}

TEST(Prefetch, DoesNotRunAheadOfItsDepth) {
  std::atomic<std::size_t> made = 0;
  auto calls = numbers(700, 7);
  const auto make = calls.make;
  calls.make = [&, make](std::size_t index) {
    made = std::max(made.load(), index + 1);
    return make(index);
  };
  Prefetcher prefetcher(100, calls, {.workers = 2, .depth = 3});
  for (std::size_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(prefetcher.next());
    EXPECT_LE(made, i + 1 + 3);
  }
}

TEST(Prefetch, ThrowsWhatTheFirstSampleThrewWhereItsBatchIsDue) {
  for (const std::size_t workers : {0, 3}) {
    auto calls = numbers(70, 7);
    const auto fill = calls.fill;
    calls.fill = [fill](Batch& batch, std::size_t index, std::size_t slot) {
      if (index == 4 && slot >= 2) throw Error("sample " + std::to_string(slot));
      fill(batch, index, slot);
    };
    Prefetcher prefetcher(10, calls, {.workers = workers});
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(prefetcher.next());
    EXPECT_EQ(error_of([&] { prefetcher.next(); }), "sample 2");
  }
}

TEST(Prefetch, ThrowsWhatMakingABatchThrew) {
  auto calls = numbers(70, 7);
  calls.make = [](std::size_t) -> std::pair<Batch, std::size_t> {
    throw Error("no room");
  };
  Prefetcher prefetcher(10, calls);
  EXPECT_EQ(error_of([&] { prefetcher.next(); }), "no room");
}

TEST(Prefetch, AWaitHasAnEnd) {
  std::atomic<bool> release = false;
  auto calls = numbers(7, 7);
  calls.fill = [&](Batch&, std::size_t, std::size_t) {
    while (!release) std::this_thread::yield();
  };
  Prefetcher prefetcher(1, calls, {.workers = 1, .timeout = std::chrono::seconds(1)});
  EXPECT_TRUE(contains(error_of([&] { prefetcher.next(); }), "was not filled within 1 s"));
  release = true;
}

}  // namespace
}  // namespace sullae::testing

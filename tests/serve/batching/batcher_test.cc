#include "serve/batching/batcher.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <condition_variable>
#include <future>
#include <mutex>

#include "base/request_error.h"
#include "support/errors.h"
#include "support/wait_until.h"

namespace sullae::testing {
namespace {

using namespace serve;

Rows rows_of(std::int64_t count, double value = 0, std::uint64_t key = 0) {
  return {.count = count, .tensors = {torch::full({count}, value)}, .words = {}, .key = key};
}

// Doubles each row, and remembers the batches.
struct Doubler {
  std::vector<std::vector<torch::Tensor>> operator()(const std::vector<const Rows*>& requests) {
    {
      std::unique_lock lock(mutex);
      std::int64_t rows = 0;
      for (const Rows* request : requests) rows += request->count;
      batches.push_back(rows);
      opened.wait(lock, [&] { return open; });
    }
    std::vector<std::vector<torch::Tensor>> outputs;
    for (const Rows* request : requests) outputs.push_back({request->tensors[0] * 2});
    return outputs;
  }
  void release() {
    const std::lock_guard lock(mutex);
    open = true;
    opened.notify_all();
  }
  void close() {
    const std::lock_guard lock(mutex);
    open = false;
  }
  std::size_t count() {
    const std::lock_guard lock(mutex);
    return batches.size();
  }
  void wait_for_batches(std::size_t wanted) {
    while (count() < wanted) std::this_thread::yield();
  }
  std::mutex mutex;
  std::condition_variable opened;
  bool open = true;
  std::vector<std::int64_t> batches;
};

std::future<Batcher::Outcome> submit(Batcher& batcher, Rows rows) {
  auto promise = std::make_shared<std::promise<Batcher::Outcome>>();
  auto future = promise->get_future();
  batcher.submit(std::move(rows),
                 [promise](Batcher::Outcome outcome) { promise->set_value(std::move(outcome)); });
  return future;
}

TEST(Batcher, EveryRequestGetsItsOwnRows) {
  for (const int instances : {1, 3}) {
    Doubler doubler;
    Batcher batcher({.max_batch_size = 7, .instances = instances}, std::ref(doubler));
    std::vector<std::future<Batcher::Outcome>> futures;
    for (int i = 0; i < 101; ++i) futures.push_back(submit(batcher, rows_of(1 + i % 5, i, i % 3)));
    for (int i = 0; i < 101; ++i) {
      const auto outcome = futures[static_cast<std::size_t>(i)].get();
      ASSERT_FALSE(outcome.error);
      EXPECT_TRUE(torch::equal(outcome.outputs[0], torch::full({1 + i % 5}, 2.0 * i)));
    }
    for (const auto rows : doubler.batches) EXPECT_LE(rows, 7);
    EXPECT_EQ(batcher.waiting(), 0);
  }
}

TEST(Batcher, WhatWaitsTogetherIsComputedTogether) {
  Doubler doubler;
  doubler.open = false;
  Batcher batcher({.max_batch_size = 8}, std::ref(doubler));
  std::vector<std::future<Batcher::Outcome>> futures;
  futures.push_back(submit(batcher, rows_of(1)));
  doubler.wait_for_batches(1);
  for (int i = 0; i < 10; ++i) futures.push_back(submit(batcher, rows_of(1)));
  doubler.release();
  for (auto& future : futures) EXPECT_FALSE(future.get().error);
  EXPECT_EQ(doubler.batches, (std::vector<std::int64_t>{1, 8, 2}));
}

TEST(Batcher, RowsOfDifferentKeysAreNotMixedAndTheOldestGoesFirst) {
  Doubler doubler;
  doubler.open = false;
  Batcher batcher({.max_batch_size = 8}, std::ref(doubler));
  std::vector<std::future<Batcher::Outcome>> futures;
  futures.push_back(submit(batcher, rows_of(1)));
  doubler.wait_for_batches(1);
  for (const std::uint64_t key : {5, 5, 2, 5, 2, 2, 2})
    futures.push_back(submit(batcher, rows_of(1, 0, key)));
  doubler.release();
  for (auto& future : futures) future.get();
  EXPECT_EQ(doubler.batches, (std::vector<std::int64_t>{1, 3, 4}));
}

TEST(Batcher, ADelayGathersABatch) {
  Doubler doubler;
  Batcher batcher({.max_batch_size = 3, .max_queue_delay = std::chrono::seconds(60)},
                  std::ref(doubler));
  std::vector<std::future<Batcher::Outcome>> futures;
  for (int i = 0; i < 6; ++i) futures.push_back(submit(batcher, rows_of(1)));
  for (auto& future : futures) EXPECT_FALSE(future.get().error);
  EXPECT_EQ(doubler.batches, (std::vector<std::int64_t>{3, 3}));
}

// What is full does not wait for the older one's time.
TEST(Batcher, AFullBatchGoesBeforeAnOlderOneThatGathers) {
  Doubler doubler;
  Batcher batcher({.max_batch_size = 3, .max_queue_delay = std::chrono::hours(1)},
                  std::ref(doubler));
  auto older = submit(batcher, rows_of(1, 0, /*key=*/0));
  auto full = submit(batcher, rows_of(3, 0, /*key=*/1));
  EXPECT_FALSE(full.get().error);
  EXPECT_EQ(doubler.count(), 1U);
  auto rest = submit(batcher, rows_of(2, 0, /*key=*/0));
  EXPECT_FALSE(older.get().error);
  EXPECT_FALSE(rest.get().error);
}

// A thread that waits for its batch's time is told of what another thread leaves.
TEST(Batcher, AFullBatchIsNotLeftWhileAThreadSleeps) {
  Doubler doubler;
  doubler.open = false;
  Batcher batcher({.max_batch_size = 3, .max_queue_delay = std::chrono::hours(1), .instances = 2},
                  std::ref(doubler));
  std::vector<std::future<Batcher::Outcome>> futures;
  // Both threads have work, and then wait for more.
  for (int i = 0; i < 2; ++i) futures.push_back(submit(batcher, rows_of(3)));
  wait_until([&] { return doubler.count() == 2; });
  doubler.release();
  for (auto& future : futures) EXPECT_FALSE(future.get().error);
  futures.clear();
  doubler.close();
  futures.push_back(submit(batcher, rows_of(1, 0, /*key=*/0)));
  futures.push_back(submit(batcher, rows_of(3, 0, /*key=*/1)));
  // The oldest batch is not full, and both threads sleep; one that has not come so far sees what is
  // left anyway.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  futures.push_back(submit(batcher, rows_of(2, 0, /*key=*/0)));
  wait_until([&] { return doubler.count() == 4; });
  doubler.release();
  for (auto& future : futures) EXPECT_FALSE(future.get().error);
}

TEST(Batcher, AFullQueueRefuses) {
  Doubler doubler;
  doubler.open = false;
  Batcher batcher({.max_batch_size = 4, .max_queue_size = 5}, std::ref(doubler));
  std::vector<std::future<Batcher::Outcome>> futures;
  futures.push_back(submit(batcher, rows_of(1)));
  doubler.wait_for_batches(1);
  futures.push_back(submit(batcher, rows_of(4)));
  futures.push_back(submit(batcher, rows_of(1)));
  EXPECT_TRUE(contains(error_of([&] { submit(batcher, rows_of(1)); }),
                       "5 rows wait already, which is as many as may (max_queue_size)"));
  EXPECT_TRUE(contains(error_of([&] { submit(batcher, rows_of(5)); }),
                       "5 rows, expected at most 4 in a request"));
  doubler.release();
  for (auto& future : futures) EXPECT_FALSE(future.get().error);
}

// Else it would be told to try again for ever.
TEST(Batcher, ARequestLargerThanTheQueueHasItsTurn) {
  Doubler doubler;
  doubler.open = false;
  Batcher batcher({.max_batch_size = 8, .max_queue_size = 5}, std::ref(doubler));
  std::vector<std::future<Batcher::Outcome>> futures;
  futures.push_back(submit(batcher, rows_of(7)));
  doubler.wait_for_batches(1);
  futures.push_back(submit(batcher, rows_of(7)));
  EXPECT_TRUE(contains(error_of([&] { submit(batcher, rows_of(1)); }),
                       "7 rows wait already, which is as many as may (max_queue_size)"));
  doubler.release();
  for (auto& future : futures) EXPECT_FALSE(future.get().error);
}

TEST(Batcher, WhatWaitedTooLongIsToldSoAndNotComputed) {
  Doubler doubler;
  doubler.open = false;
  Batcher batcher({.max_batch_size = 4, .timeout = std::chrono::milliseconds(1)},
                  std::ref(doubler));
  // On a busy machine the first may itself wait for too long: then another one is.
  std::future<Batcher::Outcome> first;
  while (doubler.count() == 0) {
    const bool expired =
        first.valid() && first.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    if (!first.valid() || expired) first = submit(batcher, rows_of(1));
    std::this_thread::yield();
  }
  auto late = submit(batcher, rows_of(2));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  doubler.release();
  first.get();
  const auto outcome = late.get();
  ASSERT_TRUE(outcome.error);
  EXPECT_TRUE(contains(error_of([&] { std::rethrow_exception(outcome.error); }),
                       "waited for more than 1 ms (timeout_milliseconds)"));
  EXPECT_EQ(doubler.batches.size(), 1U);
}

TEST(Batcher, TheTimeoutIsKeptWhileAllCompute) {
  Doubler doubler;
  doubler.open = false;
  Batcher batcher({.max_batch_size = 4, .timeout = std::chrono::milliseconds(20)},
                  std::ref(doubler));
  // Some of them are computed, and none of those ends before the last is answered.
  std::vector<std::future<Batcher::Outcome>> futures;
  while (doubler.count() == 0) {
    futures.push_back(submit(batcher, rows_of(1)));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto outcome = submit(batcher, rows_of(2)).get();
  EXPECT_TRUE(contains(error_of([&] { std::rethrow_exception(outcome.error); }),
                       "waited for more than 20 ms (timeout_milliseconds)"));
  doubler.release();
}

TEST(Batcher, TheTimeoutIsKeptWhereTheDelayIsLonger) {
  Doubler doubler;
  Batcher batcher({.max_batch_size = 4,
                   .max_queue_delay = std::chrono::hours(1),
                   .timeout = std::chrono::milliseconds(50)},
                  std::ref(doubler));
  const auto outcome = submit(batcher, rows_of(1)).get();
  EXPECT_TRUE(contains(error_of([&] { std::rethrow_exception(outcome.error); }),
                       "waited for more than 50 ms (timeout_milliseconds)"));
}

TEST(Batcher, AFailureIsToldToAllOfTheBatch) {
  Batcher batcher(
      {.max_batch_size = 4},
      [](const auto&) -> std::vector<std::vector<torch::Tensor>> { throw Error("no memory"); });
  auto one = submit(batcher, rows_of(1));
  auto other = submit(batcher, rows_of(1));
  for (auto* future : {&one, &other})
    EXPECT_EQ(error_of([&] { std::rethrow_exception(future->get().error); }), "no memory");
}

TEST(Batcher, AnswersWhatWaitsBeforeItEnds) {
  Doubler doubler;
  std::vector<std::future<Batcher::Outcome>> futures;
  {
    Batcher batcher({.max_batch_size = 64, .max_queue_delay = std::chrono::seconds(60)},
                    std::ref(doubler));
    for (int i = 0; i < 5; ++i) futures.push_back(submit(batcher, rows_of(1, i)));
  }
  for (auto& future : futures) EXPECT_FALSE(future.get().error);
}

TEST(Batcher, CanEndInItsOwnThread) {
  Doubler doubler;
  auto batcher = std::make_shared<Batcher>(BatcherOptions{.instances = 2}, std::ref(doubler));
  std::promise<void> submitted;
  std::promise<void> ended;
  std::weak_ptr<Batcher> weak = batcher;
  auto* const raw = batcher.get();
  raw->submit(rows_of(1), [&, owner = std::move(batcher)](const Batcher::Outcome&) mutable {
    submitted.get_future().get();
    owner.reset();
    ended.set_value();
  });
  submitted.set_value();
  ended.get_future().get();
  EXPECT_TRUE(weak.expired());
}

}  // namespace
}  // namespace sullae::testing

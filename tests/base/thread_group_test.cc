// Threads end before what they use, whatever happens.
#include "base/thread_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>

namespace sullae::testing {
namespace {

struct Workers {
  explicit Workers(std::atomic<int>& over, bool fails = false) : over_(over) {
    for (int i = 0; i < 3; ++i) {
      threads.start([this] {
        std::unique_lock lock(mutex_);
        ends_.wait(lock, [this] { return ending_; });
        ++over_;
      });
    }
    if (fails) throw std::runtime_error("as where a fourth one cannot be started");
  }

 private:
  void end() {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    ends_.notify_all();
  }

  std::atomic<int>& over_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ending_ = false;

 public:
  ThreadGroup threads{[this] {
    end();
  }};
};

TEST(ThreadGroup, IsJoinedWithItsOwner) {
  std::atomic<int> over = 0;
  { const Workers workers(over); }
  EXPECT_EQ(over, 3);
}

TEST(ThreadGroup, IsJoinedWhereItsOwnerIsNotMade) {
  std::atomic<int> over = 0;
  EXPECT_THROW(Workers(over, /*fails=*/true), std::runtime_error);
  EXPECT_EQ(over, 3);
}

TEST(ThreadGroup, IsStoppedOnce) {
  std::atomic<int> over = 0;
  Workers workers(over);
  workers.threads.stop();
  EXPECT_EQ(over, 3);
  EXPECT_TRUE(workers.threads.empty());
  workers.threads.stop();
}

TEST(ThreadGroup, OneOfItsThreadsMayStopIt) {
  auto* const group = new ThreadGroup([] {});
  std::atomic<bool> is_started = false;
  std::atomic<bool> is_done = false;
  group->start([&, group] {
    while (!is_started) std::this_thread::yield();
    delete group;
    is_done = true;
  });
  is_started = true;
  while (!is_done) std::this_thread::yield();
}

}  // namespace
}  // namespace sullae::testing

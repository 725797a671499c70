// What ended a world.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>

namespace sullae {

/// The first error after which the ranks of a world are out of step: later calls could be paired
/// with other ranks' earlier ones, so they are refused with it. Shared by all channels of a world,
/// whose waits look at it too. Any thread may call.
class Failure {
 public:
  /// The first call decides; false for all others.
  bool set(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_) return false;
    error_ = std::move(error);
    happened_.store(true);
    changed_.notify_all();
    return true;
  }

  /// Throws the error, if there is one.
  void check() const {
    if (happened_.load(std::memory_order_acquire)) std::rethrow_exception(first());
  }

  /// Waits for it, at most `limit`, before it checks.
  void check_within(std::chrono::milliseconds limit) const {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, limit, [this] { return error_ != nullptr; });
    }
    check();
  }

  /// Null while there is none.
  std::exception_ptr first() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  std::atomic<bool> happened_{false};
  mutable std::condition_variable changed_;
  mutable std::mutex mutex_;  // guards error_
  std::exception_ptr error_;
};

}  // namespace sullae

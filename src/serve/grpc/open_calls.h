// Calls that are being answered, for a server that is to end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/request_error.h"

namespace sullae::serve {

[[noreturn]] inline void refuse_new_calls() {
  throw RequestError(Refusal::unavailable, "the server ends");
}

/// Any thread.
class OpenCalls {
 public:
  /// False where no more are taken.
  bool enter() {
    const std::lock_guard lock(mutex_);
    if (!ending_) ++count_;
    return !ending_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) none_.notify_all();
  }
  /// Takes no more.
  void refuse() {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  /// Waits for those that there are; false where some are still there after `limit`.
  bool wait(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return none_.wait_for(lock, limit, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  // Guarded by it.
  int count_ = 0;
  bool ending_ = false;
};

}  // namespace sullae::serve

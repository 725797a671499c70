// The outcome of one operation.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

namespace sullae {

/// Any thread may call.
class Completion {
 public:
  using Callback = std::function<void(std::exception_ptr)>;

  bool done() const { return done_ != 0; }
  /// Rethrows what the operation threw.
  void wait() const;
  /// The same for at most `limit`; false when it is not done by then.
  bool wait_for(std::chrono::milliseconds limit) const;
  /// Calls `callback` when the operation is done: in the thread that finishes it, or at once in
  /// this one. It must not throw.
  void then(Callback callback);
  void finish(const std::exception_ptr& error);
  /// Before finish(): who sent what was received.
  void set_source(int rank) { source_ = rank; }
  /// After it has finished; -1 where nothing was received.
  int source() const { return source_; }

 private:
  // A condition variable would cost its waiter two more switches: woken while the finisher holds the mutex, it waits for that.
  // An atomic's own wait() knows no limit.
  mutable std::atomic<std::uint32_t> done_ = 0;
  mutable std::atomic<int> sleepers_ = 0;
  std::exception_ptr error_;  // written before done_
  int source_ = -1;           // written before done_
  std::mutex mutex_;
  std::vector<Callback> callbacks_;
};

}  // namespace sullae

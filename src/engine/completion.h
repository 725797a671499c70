// The outcome of one operation.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/own_process.h"

namespace sullae {

class Completion;

/// What runs operations in a thread of its own, or in those of who waits for them: a thread that is
/// there already need not be woken.
class Worker {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Worker() = default;
  /// False in a fork of its process, which has only a copy.
  bool is_here() const { return process_.is_here(); }
  /// Works in the calling thread for `completion`, where no other thread does, until it is done, or
  /// `until` has come between two pieces of work.
  virtual void work_for(const Completion& completion, Clock::time_point until) = 0;

 private:
  OwnProcess process_;
};

/// Any thread may call.
class Completion {
 public:
  using Clock = Worker::Clock;
  using Callback = std::function<void(std::exception_ptr)>;

  bool done() const { return done_ != 0; }
  /// Rethrows what the operation threw. Works for it meanwhile. An interruption
  /// (base/interruption.h) ends the wait, not the operation.
  void wait() const;
  /// Only waits, for at most `limit`; false when it is not done by then.
  bool wait_for(std::chrono::milliseconds limit) const;
  /// Calls `callback` when the operation is done: in the thread that finishes it, or at once in
  /// this one. It must not throw.
  void then(Callback callback);
  void finish(const std::exception_ptr& error);
  /// Before anybody waits: who lets them work for it.
  void let_work(std::weak_ptr<Worker> worker) { worker_ = std::move(worker); }
  /// Before finish(): who sent what was received.
  void set_source(int rank) { source_ = rank; }
  /// After it has finished; -1 where nothing was received.
  int source() const { return source_; }

 private:
  // Works for it meanwhile, and so may return later than that.
  bool work_for(std::chrono::milliseconds limit) const;
  void sleep_until(Clock::time_point until) const;
  bool has_ended() const;

  // A condition variable would cost its waiter two more switches: woken while the finisher holds
  // the mutex, it waits for that. An atomic's own wait() knows no limit.
  mutable std::atomic<std::uint32_t> done_ = 0;
  mutable std::atomic<int> sleepers_ = 0;
  std::weak_ptr<Worker> worker_;
  std::exception_ptr error_;  // written before done_
  int source_ = -1;           // written before done_
  std::mutex mutex_;
  std::vector<Callback> callbacks_;
};

}  // namespace sullae

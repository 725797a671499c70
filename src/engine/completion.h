// The outcome of one operation.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

namespace sullae {

/// Any thread may call.
class Completion {
 public:
  using Callback = std::function<void(std::exception_ptr)>;

  bool done() const;
  /// Rethrows what the operation threw.
  void wait() const;
  /// Calls `callback` when the operation is done: in the thread that finishes it, or at once in
  /// this one. It must not throw.
  void then(Callback callback);
  void finish(const std::exception_ptr& error);
  /// Before finish(): who sent what was received.
  void set_source(int rank) { source_ = rank; }
  /// After it has finished; -1 where nothing was received.
  int source() const { return source_; }

 private:
  mutable std::mutex mutex_;  // guards all below
  mutable std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr error_;
  std::vector<Callback> callbacks_;
  int source_ = -1;  // written before done_
};

}  // namespace sullae

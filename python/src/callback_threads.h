// Threads that call what programs have asked to be called.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace sullae::python {

/// A callback may wait for an operation whose end is another callback, as those of DDP's
/// communication hooks do: none of them waits for a thread that another one has. Any thread may
/// call.
class CallbackThreads {
 public:
  CallbackThreads();
  /// Does not wait for what was posted, which is called.
  ~CallbackThreads();
  CallbackThreads(const CallbackThreads&) = delete;
  CallbackThreads& operator=(const CallbackThreads&) = delete;

  /// `callback` must not throw.
  void post(std::function<void()> callback);
  /// Returns when all that was posted has been called; in one of these threads, at once.
  void stop();
  /// Before the interpreter ends, which ends threads that ask for its lock where they stand: of all
  /// objects, what is called comes to its end, for at most `limit`, and what was posted, or is from
  /// here on, is not called any more.
  static void end_all(std::chrono::milliseconds limit);

  struct State;

 private:
  std::shared_ptr<State> state_;  // of the threads, too
};

}  // namespace sullae::python

// What may end a long wait: Ctrl-C, which an interpreter keeps until it is asked; a server that is
// stopped.
#pragma once

#include <chrono>
#include <functional>

namespace sullae {

/// Throws what ends the wait.
using InterruptionCheck = std::function<void()>;

/// While it lives, long waits of the calling thread for other ranks, and for stores, make the check
/// every 100 ms or so. A call that it ends is left as by a timeout.
class Interruptible {
 public:
  /// A `check` that is empty: nothing ends its waits.
  explicit Interruptible(InterruptionCheck check);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  InterruptionCheck before_;
};

/// That of the calling thread; empty where its waits are not interrupted.
InterruptionCheck interruption_check();

/// How long to wait for, of `remaining`, before the next check.
std::chrono::milliseconds until_interruption(std::chrono::milliseconds remaining);

/// Throws where this thread's wait is to end.
void check_interruption();

}  // namespace sullae

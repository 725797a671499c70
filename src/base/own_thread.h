// The threads that run operations and callbacks in the background.
#pragma once

#include "base/interruption.h"

namespace sullae {

/// True in the threads of engines, background queues and messengers. They cannot wait for their own
/// end, and leave the processor to the training thread while they wait, where a thread of the
/// program has nothing better to do than to wait.
inline thread_local bool in_own_thread = false;

/// True in a thread of the program that runs what an engine or a queue has to run: it cannot wait
/// for their end either.
inline thread_local bool is_lent = false;

/// Lends the calling thread. What it runs is not its own, so that no interruption of its own ends
/// it.
class LentThread {
 public:
  LentThread() : before_(is_lent) { is_lent = true; }
  ~LentThread() { is_lent = before_; }
  LentThread(const LentThread&) = delete;
  LentThread& operator=(const LentThread&) = delete;

 private:
  bool before_;
  Interruptible by_nothing_{nullptr};
};

}  // namespace sullae

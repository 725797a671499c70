// Whether a process is still the one that it was.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace sullae {

/// getpid(), without a system call.
inline pid_t own_process() {
  static std::atomic<pid_t> known = 0;
  const pid_t before = known.load(std::memory_order_relaxed);
  if (before != 0) return before;
  [[maybe_unused]] static const int noted =
      ::pthread_atfork(nullptr, nullptr, [] { known.store(0, std::memory_order_relaxed); });
  const pid_t now = ::getpid();
  known.store(now, std::memory_order_relaxed);
  return now;
}

/// What has threads and connections is its process's alone: a fork has a copy of it, which it must
/// not touch.
class OwnProcess {
 public:
  /// False in a fork of the process that made this object.
  bool is_here() const { return process_ == own_process(); }

 private:
  pid_t process_ = own_process();
};

}  // namespace sullae

// How one process of a host waits for another.
#pragma once

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

#include "base/fd.h"

namespace sullae::shm {

/// A sleeping waiter looks up this often to see whether the member that it waits for still lives.
inline constexpr std::chrono::milliseconds kLivenessPeriod{100};

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

/// Sleeps while `word` is `seen`, at most `limit`. The word may be in memory of several processes.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                       std::chrono::microseconds limit) {
  timespec time{};
  time.tv_sec = limit.count() / 1'000'000;
  time.tv_nsec = limit.count() % 1'000'000 * 1000;
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// A descriptor by which the end of process `pid` is noticed; an empty one, with errno set, where
/// there is none.
inline UniqueFd open_process(int pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

inline bool process_ended(const UniqueFd& process) {
  pollfd polled{process.get(), POLLIN, 0};
  return ::poll(&polled, 1, 0) > 0;
}

}  // namespace sullae::shm

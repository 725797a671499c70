// SIGINT, SIGTERM and SIGHUP, for a program that ends in its own time.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <ctime>

#include "base/fd.h"
#include "base/system_error.h"

namespace sullae {

/// Whether this process was started to ignore it.
inline bool is_ignored(int signal) {
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

/// Until there are EndSignals: the first one ends the program at once, also where it is process 1
/// of a container, whose default is to ignore them.
inline void end_at_once_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (is_ignored(signal)) continue;
    struct sigaction action {};
    action.sa_handler = [](int number) {
      ::_exit(128 + number);
    };
    ::sigaction(signal, &action, nullptr);
  }
}

/// Whichever thread gets the signal: blocking it is not enough, since libraries have threads
/// (OpenBLAS) before main() begins, which would end the program. A signal that the program was
/// started to ignore it goes on ignoring. One at a time.
class EndSignals {
 public:
  /// What another signal does, once one has come. Those of the first moments are the same request,
  /// which several have passed on: timeout(1) and batch systems signal a process, its parent and
  /// its group.
  enum class Next { waits, ends_at_once };
  static constexpr std::chrono::milliseconds kSameRequest{200};

  explicit EndSignals(Next next = Next::waits) {
    event_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event_) throw system_error("eventfd");
    event_fd_ = event_.get();
    ends_at_once_ = next == Next::ends_at_once;
    signal_ = 0;
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) set(kSignals[i], on_signal);
    }
  }
  ~EndSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i)
      ::sigaction(kSignals[i], &before_[i], nullptr);
  }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  bool come_within(std::chrono::milliseconds limit) const {
    pollfd polled{event_.get(), POLLIN, 0};
    return ::poll(&polled, 1, static_cast<int>(limit.count())) > 0;
  }
  /// The first that came, or 0.
  int signal() const { return signal_; }
  /// The next one ends the program at once.
  void let_go() {
    for (const int signal : kSignals) {
      if (!is_ignored(signal)) set(signal, SIG_DFL);
    }
  }

 private:
  static constexpr std::array<int, 3> kSignals{SIGINT, SIGTERM, SIGHUP};

  static void set(int signal, void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }

  static std::int64_t milliseconds() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
  }

  static void on_signal(int signal) {
    const int error = errno;
    int none = 0;
    if (signal_.compare_exchange_strong(none, signal)) {
      first_ = milliseconds();
    } else if (ends_at_once_ && milliseconds() - first_ > kSameRequest.count()) {
      set(signal, SIG_DFL);
      ::raise(signal);
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(event_fd_, &one, sizeof one);
    errno = error;
  }

  inline static std::atomic<int> event_fd_ = -1;
  inline static std::atomic<int> signal_ = 0;
  inline static std::atomic<bool> ends_at_once_ = false;
  inline static std::atomic<std::int64_t> first_ = 0;
  UniqueFd event_;
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace sullae

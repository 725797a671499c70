// SIGINT and SIGTERM, for a program that ends in its own time.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>

#include <chrono>
#include <csignal>
#include <cstdint>

#include "base/fd.h"
#include "base/system_error.h"

namespace sullae {

/// Whichever thread gets the signal: blocking it is not enough, since libraries have threads (OpenBLAS) before main()
/// begins, which would end the program. One at a time.
class EndSignals {
 public:
  /// What another signal does, once one has come.
  enum class Next { waits, ends_at_once };

  explicit EndSignals(Next next = Next::waits) {
    event_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event_) throw system_error("eventfd");
    event_fd_ = event_.get();
    signal_ = 0;
    const auto handler = [](int signal) {
      signal_ = signal;
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(event_fd_, &one, sizeof one);
    };
    set(handler, next == Next::waits ? SA_RESTART : SA_RESTART | static_cast<int>(SA_RESETHAND));
  }
  ~EndSignals() { let_go(); }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  bool come_within(std::chrono::milliseconds limit) const {
    pollfd polled{event_.get(), POLLIN, 0};
    return ::poll(&polled, 1, static_cast<int>(limit.count())) > 0;
  }
  /// The last that came, or 0.
  int signal() const { return signal_; }
  /// The next one ends the program at once.
  void let_go() { set(SIG_DFL, SA_RESTART); }

 private:
  static void set(void (*handler)(int), int flags) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  }

  inline static volatile std::sig_atomic_t event_fd_ = -1;
  inline static volatile std::sig_atomic_t signal_ = 0;
  UniqueFd event_;
};

}  // namespace sullae

// SIGINT and SIGTERM, for a program that ends in its own time.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>

#include <chrono>
#include <csignal>
#include <cstdint>

#include "base/fd.h"
#include "base/system_error.h"

namespace sullae::cli {

/// Whichever thread gets the signal: blocking it is not enough, since libraries have threads (OpenBLAS) before main()
/// begins, which would end the program. One at a time.
class EndSignals {
 public:
  EndSignals() {
    event_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event_) throw system_error("eventfd");
    told_ = event_.get();
    set([](int) {
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(told_, &one, sizeof one);
    });
  }
  ~EndSignals() { let_go(); }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  bool come_within(std::chrono::milliseconds limit) const {
    pollfd polled{event_.get(), POLLIN, 0};
    return ::poll(&polled, 1, static_cast<int>(limit.count())) > 0;
  }
  /// The next one ends the program at once.
  void let_go() { set(SIG_DFL); }

 private:
  static void set(void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
  }

  inline static volatile int told_ = -1;
  UniqueFd event_;
};

}  // namespace sullae::cli

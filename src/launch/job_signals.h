// The signals that end a job.
#pragma once

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "base/end_signals.h"
#include "base/fd.h"

namespace sullae {

/// For the thread that calls it, and those that it starts: signals are for others.
inline void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

/// One of them that has come, where they are blocked: it stays for who takes it. Nothing where none
/// has.
inline std::optional<int> pending_end_signal() {
  sigset_t pending;
  ::sigpending(&pending);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    if (sigismember(&pending, signal) == 1) return signal;
  }
  return std::nullopt;
}

/// As a file descriptor, and blocked, for as long as the object lives, but for SIGHUP where it is
/// ignored (nohup); SIGPIPE is ignored. One at a time.
class JobSignals {
 public:
  JobSignals() {
    sigset_t mask;
    sigemptyset(&mask);
    for (const int signal : {SIGINT, SIGTERM}) sigaddset(&mask, signal);
    if (!is_ignored(SIGHUP)) sigaddset(&mask, SIGHUP);
    sigprocmask(SIG_BLOCK, &mask, &old_mask_);
    old_pipe_ = std::signal(SIGPIPE, SIG_IGN);
    fd_ = UniqueFd(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~JobSignals() {
    sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
    std::signal(SIGPIPE, old_pipe_);
  }
  JobSignals(const JobSignals&) = delete;
  JobSignals& operator=(const JobSignals&) = delete;

  int fd() const { return fd_.get(); }
  std::optional<int> next() const {
    signalfd_siginfo info;
    if (::read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
  }

 private:
  sigset_t old_mask_{};
  void (*old_pipe_)(int) = SIG_DFL;
  UniqueFd fd_;
};

}  // namespace sullae

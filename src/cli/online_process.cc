#include "cli/online_process.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/log.h"
#include "launch/process.h"
#include "launch/remote_shell.h"
#include "sullae/error.h"

namespace sullae::cli {
namespace {

constexpr int kNice = 10;
// Time that it gets to end by itself, and after which a process that ended had been well.
constexpr std::chrono::seconds kEndTimeout{5};
constexpr std::chrono::seconds kWell{60};
constexpr std::chrono::seconds kLongestPause{60};

std::string describe_end(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {}", WTERMSIG(status));
  return fmt::format("ended with code {}", WEXITSTATUS(status));
}

}  // namespace

OnlineProcess::OnlineProcess(const std::string& repository, int ranks) {
  if (ranks > 1) words_ = {own_program(), "run", "-np", std::to_string(ranks), "--bind-to", "none"};
  words_.insert(words_.end(), {own_program(), "online", repository});
  start();
}

void OnlineProcess::start() {
  started_ = Clock::now();
  pid_ = start_child(
      {.words = words_, .has_own_group = false, .signal_at_end = SIGTERM, .prepare = [] {
         ::setpriority(PRIO_PROCESS, 0, kNice);
         // The server's connections would stay open for their clients until this
         // process ends, too.
         ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
       }});
}

void OnlineProcess::reap(int status) {
  pid_ = 0;
  if (Clock::now() - started_ > kWell) pause_ = std::chrono::seconds(1);
  log::warning("sullae online {}; it is started again in {} s", describe_end(status),
               pause_.count());
  restart_ = Clock::now() + pause_;
  pause_ = std::min(pause_ * 2, kLongestPause);
}

void OnlineProcess::watch() {
  int status = 0;
  if (pid_ > 0 && ::waitpid(pid_, &status, WNOHANG) == pid_) reap(status);
  if (pid_ > 0 || Clock::now() < restart_) return;
  try {
    start();
  } catch (
      const Error& error) {  // there may be room for it later; those who are served need it not
    log::warning("sullae online cannot be started, and is tried again in {} s: {}", pause_.count(),
                 error.what());
    restart_ = Clock::now() + pause_;
    pause_ = std::min(pause_ * 2, kLongestPause);
  }
}

OnlineProcess::~OnlineProcess() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGTERM);
  try {
    if (!wait_for_end(pid_, Deadline(kEndTimeout, "the limit for its end"))) kill_and_wait(pid_);
  } catch (const Error&) {  // somebody else has waited for it
  }
}

}  // namespace sullae::cli

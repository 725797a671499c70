#include "launch/process.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "base/system_error.h"
#include "sullae/error.h"

namespace sullae {

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw system_error("pipe");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void limit_spinning() {
  if (::getenv("GOMP_SPINCOUNT") == nullptr)
    ::setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
}

void reset_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
}

std::optional<int> wait_for_end(pid_t pid, const Deadline& deadline) {
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return status;
    if (ended < 0 && errno != EINTR) throw system_error("waitpid");
    if (deadline.passed()) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

void kill_and_wait(pid_t pid) {
  constexpr std::chrono::seconds kLimit{5};
  ::kill(pid, SIGKILL);
  try {
    wait_for_end(std::abs(pid), Deadline(kLimit, "the limit for a killed process to end"));
  } catch (const Error&) {  // somebody else has waited for it
  }
}

void execute(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
}

}  // namespace sullae

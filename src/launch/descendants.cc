#include "launch/descendants.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/deadline.h"
#include "base/processes.h"

namespace sullae {
void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

std::vector<pid_t> child_processes() {
  std::vector<pid_t> children;
  for (const pid_t pid : all_processes()) {
    const auto state = state_of_process(pid);
    if (state && state->parent == ::getpid()) children.push_back(pid);
  }
  return children;
}

std::vector<pid_t> kill_descendants(std::chrono::milliseconds limit) {
  const Deadline deadline(limit, "the grace period");
  for (;;) {
    const auto children = child_processes();
    for (const pid_t child : children) ::kill(child, SIGKILL);
    // Each child's end hands its own children to this process.
    pid_t ended = 0;
    while ((ended = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (ended < 0 && errno == ECHILD) return {};
    if (deadline.passed()) return children;
    ::poll(nullptr, 0, 2);
  }
}

}  // namespace sullae

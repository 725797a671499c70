#include "launch/descendants.h"

#include <dirent.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "base/deadline.h"

namespace sullae {
namespace {

// The fourth field of /proc/<pid>/stat; the second, in parentheses, may hold anything.
pid_t parent_of(const std::string& pid) {
  std::ifstream stream("/proc/" + pid + "/stat");
  std::string text;
  std::getline(stream, text);
  const auto end = text.rfind(')');
  if (end == std::string::npos || end + 4 > text.size()) return 0;
  return static_cast<pid_t>(std::atol(text.c_str() + end + 4));
}

}  // namespace

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

std::vector<pid_t> child_processes() {
  std::vector<pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc"), ::closedir);
  if (!directory) return children;
  while (const dirent* entry = ::readdir(directory.get())) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0])) == 0) continue;
    if (parent_of(entry->d_name) == ::getpid())
      children.push_back(static_cast<pid_t>(std::atol(entry->d_name)));
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

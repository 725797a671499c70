// Child processes: how they are started, what they are told by, and how they end.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"

namespace sullae {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

/// Both ends are closed by exec. Throws Error.
Pipe make_pipe();

struct ChildOptions {
  /// The program, looked up in PATH, and its arguments.
  std::vector<std::string> words;
  /// Empty: this process's.
  std::filesystem::path directory = {};
  /// Beside this process's variables, or instead of them.
  std::map<std::string, std::string> environment = {};
  /// Descriptors that become its standard streams; -1: nothing to read, and this process's to write
  /// to.
  int input = -1;
  int output = -1;
  int errors = -1;
  /// Of a group of its own, whose number is the child's: signals of the terminal do not reach it.
  bool has_own_group = true;
  /// What it gets when the thread that has started it ends; 0: it goes on.
  int signal_at_end = 0;
  /// What else is to be done in the child, last of all. Other threads may have held locks when the
  /// process was copied: it takes none.
  std::function<void()> prepare = {};
};

/// Starts a child process, with no signal blocked or ignored of those that end processes (SIGHUP
/// stays as it is, for nohup). All descriptors that exec does not close, it has. Any thread. Throws
/// Error where it cannot be run, which says why, and TimeoutError where it is not within a minute,
/// as on a file system that does not answer.
pid_t start_child(const ChildOptions& options);

/// For the program that this process becomes: OpenMP's threads spin for milliseconds at the end of
/// each parallel loop, against whoever else has work for the processor. Sets OMP_WAIT_POLICY to
/// passive, unless the user has set that or GOMP_SPINCOUNT.
void limit_spinning();

/// The status (waitpid) of child `pid` once it has ended; empty where it has not until the
/// deadline. Any thread.
std::optional<int> wait_for_end(pid_t pid, const Deadline& deadline);
/// Kills child `pid`, or with -pid its group, and waits for it; not for one that the kernel keeps,
/// as a file system that does not answer does.
void kill_and_wait(pid_t pid);

}  // namespace sullae

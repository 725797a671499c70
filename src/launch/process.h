// Pipes to child processes, and the program that a child becomes.
#pragma once

#include <sys/types.h>

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

/// For the program that this process becomes: OpenMP's threads spin for milliseconds at the end of each parallel loop,
/// against whoever else has work for the processor. Sets OMP_WAIT_POLICY to passive, unless the user has set that or
/// GOMP_SPINCOUNT.
void limit_spinning();

/// In a child: no signal is blocked, and a broken pipe ends it, whatever this program had made of that.
void reset_signals();

/// The status (waitpid) of child `pid` once it has ended; empty where it has not until the deadline. Any thread.
std::optional<int> wait_for_end(pid_t pid, const Deadline& deadline);
/// Kills child `pid`, or with -pid its group, and waits for it; not for one that the kernel keeps, as a file system that does not answer does.
void kill_and_wait(pid_t pid);

/// Replaces this process by the program words[0], looked up in PATH. Returns only when that fails,
/// with errno set.
void execute(const std::vector<std::string>& words);

}  // namespace sullae

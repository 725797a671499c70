// Pipes to child processes, and the program that a child becomes.
#pragma once

#include <string>
#include <vector>

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

/// Replaces this process by the program words[0], looked up in PATH. Returns only when that fails,
/// with errno set.
void execute(const std::vector<std::string>& words);

}  // namespace sullae

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

/// Replaces this process by the program words[0], looked up in PATH. Returns only when that fails,
/// with errno set.
void execute(const std::vector<std::string>& words);

}  // namespace sullae

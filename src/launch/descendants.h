// Ending processes together with everything that they started.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

namespace sullae {

/// From now on, orphaned descendants become children of this process instead of init's.
void adopt_orphans();

/// The children of this process.
std::vector<pid_t> child_processes();

/// Kills all children and, as they are adopted, theirs, until there are none, and reaps them. Needs
/// adopt_orphans(). Returns those that have not ended within `limit`: a process that waits for a
/// disk that does not answer cannot.
std::vector<pid_t> kill_descendants(std::chrono::milliseconds limit);

}  // namespace sullae

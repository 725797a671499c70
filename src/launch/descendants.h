// Ending processes together with everything that they started.
#pragma once

#include <sys/types.h>

#include <vector>

namespace sullae {

/// From now on, orphaned descendants become children of this process instead of init's.
void adopt_orphans();

/// The children of this process.
std::vector<pid_t> child_processes();

/// Kills all children and, as they are adopted, theirs, until there are none, and reaps them. Needs
/// adopt_orphans().
void kill_descendants();

}  // namespace sullae

// The processes of this host, or container, as proc(5) shows them.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

namespace sullae {

std::vector<pid_t> all_processes();

struct ProcessState {
  char state = 'Z';  ///< 'Z': it has ended, and nobody has waited for it
  pid_t parent = 0;
  pid_t group = 0;
};
/// None where there is no such process.
std::optional<ProcessState> state_of_process(pid_t pid);
/// Whether there is such a process, of whatever user, which has not ended.
bool is_running(pid_t pid);

}  // namespace sullae

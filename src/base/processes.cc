#include "base/processes.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "base/number.h"

namespace sullae {

std::vector<pid_t> all_processes() {
  std::vector<pid_t> processes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    if (const auto pid = number_in<pid_t>(entry.path().filename().string()))
      processes.push_back(*pid);
  }
  return processes;
}

std::optional<ProcessState> state_of_process(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  // "pid (name) state parent group …", of which the name may hold anything.
  const auto end = line.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(end + 1));
  ProcessState state;
  rest >> state.state >> state.parent >> state.group;
  if (!rest) return std::nullopt;
  return state;
}

// Those of others may be hidden in /proc.
bool is_running(pid_t pid) {
  if (pid <= 0 || (::kill(pid, 0) != 0 && errno != EPERM)) return false;
  const auto state = state_of_process(pid);
  return !state || state->state != 'Z';
}

}  // namespace sullae

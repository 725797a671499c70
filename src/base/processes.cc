#include "base/processes.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace sullae {

std::vector<pid_t> all_processes() {
  std::vector<pid_t> processes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const auto name = entry.path().filename().string();
    pid_t pid = 0;
    const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (wrong == std::errc{} && end == name.data() + name.size()) processes.push_back(pid);
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

}  // namespace sullae

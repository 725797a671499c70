#include "cluster/slurm/daemons.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include "base/deadline.h"
#include "base/file.h"
#include "base/processes.h"
#include "cluster/command.h"
#include "sullae/error.h"

namespace sullae::cluster {
namespace {

namespace fs = std::filesystem;

void end_processes(const std::map<std::string, pid_t>& daemons) {
  for (const auto& [name, pid] : daemons) ::kill(pid, SIGTERM);
  const Deadline deadline(std::chrono::seconds{10}, "the limit for daemons to end");
  for (const auto& [name, pid] : daemons) {
    while (is_running(pid) && !deadline.passed())
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
    if (is_running(pid)) ::kill(pid, SIGKILL);
  }
}

}  // namespace

std::optional<pid_t> running_pid(const fs::path& folder, const fs::path& pid_file) {
  std::ifstream stream(pid_file);
  pid_t pid = 0;
  if (!(stream >> pid) || pid <= 1) return std::nullopt;
  std::ifstream command(fmt::format("/proc/{}/cmdline", pid), std::ios::binary);
  const std::string words{std::istreambuf_iterator<char>(command), {}};
  return words.find(folder.string() + "/") == std::string::npos ? std::nullopt : std::optional(pid);
}

std::map<std::string, pid_t> daemons_of(const fs::path& folder) {
  std::map<std::string, pid_t> found;
  std::error_code error;
  for (const auto& file : entries_of(folder / "run", error).value_or(std::vector<fs::path>{})) {
    if (file.extension() != ".pid") continue;
    if (const auto pid = running_pid(folder, file)) found[file.stem().string()] = *pid;
  }
  return found;
}

void end_daemons(const fs::path& folder) {
  auto daemons = daemons_of(folder);
  const auto munged = daemons.extract("munged");
  end_processes(daemons);  // which need munged until they have ended
  if (!munged.empty()) end_processes({{munged.key(), munged.mapped()}});
}

void start_daemon(const std::vector<std::string>& words) {
  const CommandResult result = run_command({.words = words});
  if (result.exit_code != 0) {
    throw Error(fmt::format("{} could not be started (exit code {}): {}{}", words.front(),
                            result.exit_code, result.output, result.errors));
  }
}

}  // namespace sullae::cluster

#include "pipeline/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "base/fd.h"
#include "base/processes.h"
#include "base/system_error.h"
#include "launch/process.h"

namespace sullae::pipeline {
namespace {

namespace fs = std::filesystem;

std::vector<pid_t> marked(const std::string& mark) {
  const std::string wanted = std::string(kMark) + "=" + mark;
  std::vector<pid_t> found;
  for (const pid_t pid : all_processes()) {
    std::ifstream stream(fs::path("/proc") / std::to_string(pid) / "environ", std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(stream), {}};
    const auto at = all.find(wanted + '\0');
    const bool is_whole = at == 0 || (at != std::string::npos && all[at - 1] == '\0');
    if (is_whole && pid != ::getpid()) found.push_back(pid);
  }
  return found;
}

// Of a process group, those that run.
std::vector<pid_t> members_of(pid_t group) {
  std::vector<pid_t> found;
  for (const pid_t pid : all_processes()) {
    const auto state = state_of_process(pid);
    if (state && state->group == group && state->state != 'Z') found.push_back(pid);
  }
  return found;
}

}  // namespace

StepProcess::StepProcess(const Options& options) : mark_(options.mark) {
  const UniqueFd log(::open(options.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log) throw system_error("{}", options.log.string());
  auto environment = options.environment;
  if (!mark_.empty()) environment[kMark] = mark_;
  pid_ = start_child({.words = options.words,
                      .directory = options.folder,
                      .environment = std::move(environment),
                      .output = log.get(),
                      .errors = log.get(),
                      .signal_at_end = SIGKILL});
}

StepProcess::StepProcess(StepProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), mark_(std::move(other.mark_)) {}

StepProcess::~StepProcess() {
  if (pid_ < 0) return;
  ::kill(-pid_, SIGKILL);
  kill_marked(mark_);
  kill_and_wait(-pid_);
}

std::optional<int> StepProcess::ended() {
  int status = 0;
  const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return std::nullopt;
  ::kill(-pid_, SIGKILL);  // what it has left
  kill_marked(mark_);
  pid_ = -1;
  if (ended < 0) return 127;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void StepProcess::stop(std::vector<StepProcess*> processes) {
  // What has ended has no number any more.
  std::erase_if(processes, [](const StepProcess* one) { return one->pid_ < 0; });
  for (const StepProcess* const one : processes) ::kill(-one->pid_, SIGTERM);
  // Not until the shell alone is gone: what it has started may have something to save.
  const auto is_there = [](const StepProcess* one) {
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(one->pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    const bool has_ended = info.si_pid == one->pid_;
    return !has_ended || !members_of(one->pid_).empty();
  };
  constexpr int kTenths = 100;
  for (int i = 0; i < kTenths && std::ranges::any_of(processes, is_there); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  for (StepProcess* const one : processes) {
    ::kill(-one->pid_, SIGKILL);
    kill_marked(one->mark_);
    kill_and_wait(-std::exchange(one->pid_, -1));
  }
}

void kill_marked(const std::string& mark) {
  constexpr int kTurns = 10;
  for (int i = 0; i < kTurns && !mark.empty(); ++i) {
    const auto found = marked(mark);
    if (found.empty()) return;
    for (const pid_t pid : found) ::kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
}

}  // namespace sullae::pipeline

#include "launch/host_launcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <utility>

#include "base/system_error.h"
#include "launch/process.h"

namespace sullae {
namespace {

struct Registered {
  std::mutex mutex;
  std::vector<HostLauncherMaker> makers;
};

Registered& registered() {
  static Registered of_the_process;
  return of_the_process;
}

}  // namespace

void register_host_launcher(HostLauncherMaker maker) {
  const std::lock_guard lock(registered().mutex);
  registered().makers.push_back(std::move(maker));
}

std::unique_ptr<HostLauncher> make_host_launcher(const std::string& host, const JobOptions& job) {
  std::vector<HostLauncherMaker> makers;
  {
    const std::lock_guard lock(registered().mutex);
    makers = registered().makers;
  }
  makers.emplace_back(make_local_launcher);
  for (const HostLauncherMaker& make : makers) {
    if (auto launcher = make(host, job)) return launcher;
  }
  return make_remote_shell_launcher(host, job);
}

AgentChannel start_child(const std::vector<std::string>& words, const sigset_t& signals) {
  Pipe input = make_pipe();
  Pipe output = make_pipe();
  const pid_t pid = ::fork();
  if (pid < 0) throw system_error("fork");
  if (pid == 0) {
    ::setpgid(0, 0);
    sigprocmask(SIG_SETMASK, &signals, nullptr);
    ::dup2(input.read.get(), STDIN_FILENO);
    ::dup2(output.write.get(), STDOUT_FILENO);
    execute(words);
    const auto line =
        fmt::format("sullae run: {} cannot be run: {}\n", words[0], std::strerror(errno));
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
    ::_exit(127);
  }
  return {std::move(input.write), std::move(output.read), pid};
}

}  // namespace sullae

#include "launch/host_launcher.h"

#include <mutex>
#include <utility>

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

AgentChannel open_channel(const std::vector<std::string>& words) {
  Pipe input = make_pipe();
  Pipe output = make_pipe();
  const pid_t pid =
      start_child({.words = words, .input = input.read.get(), .output = output.write.get()});
  return {std::move(input.write), std::move(output.read), pid};
}

}  // namespace sullae

#include <utility>

#include "launch/host_launcher.h"
#include "launch/remote_shell.h"

namespace sullae {
namespace {

class RemoteShellLauncher final : public HostLauncher {
 public:
  RemoteShellLauncher(std::string host, std::string shell)
      : host_(std::move(host)), shell_(std::move(shell)) {}

  AgentChannel start(const std::vector<std::string>& agent) override {
    return open_channel(remote_command(shell_, host_, agent));
  }

 private:
  std::string host_;
  std::string shell_;
};

}  // namespace

std::unique_ptr<HostLauncher> make_remote_shell_launcher(const std::string& host,
                                                         const JobOptions& job) {
  return std::make_unique<RemoteShellLauncher>(host, job.remote_shell);
}

}  // namespace sullae

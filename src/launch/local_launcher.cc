#include "launch/host_launcher.h"

namespace sullae {
namespace {

class LocalLauncher final : public HostLauncher {
 public:
  AgentChannel start(const std::vector<std::string>& agent) override { return open_channel(agent); }
  bool is_here() const override { return true; }
};

}  // namespace

std::unique_ptr<HostLauncher> make_local_launcher(const std::string& host, const JobOptions&) {
  return is_this_host(host) ? std::make_unique<LocalLauncher>() : nullptr;
}

}  // namespace sullae

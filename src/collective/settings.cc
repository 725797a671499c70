#include "collective/settings.h"

#include <fmt/format.h>

#include <array>

#include "collective/p2p/allreduce_algorithms.h"
#include "sullae/error.h"
#include "transport/transports.h"

namespace sullae {

CollectiveSettings CollectiveSettings::from(const Environment& environment) {
  CollectiveSettings settings{.waits = WaitSettings::from(environment)};
  read_text(environment, "SULLAE_TRANSPORT", settings.transport);
  read_text(environment, "SULLAE_ALLREDUCE_ALGORITHM", settings.allreduce_algorithm);
  read_switch(environment, "SULLAE_HIERARCHICAL_ADASUM", settings.hierarchical_adasum);
  read_switch(environment, "SULLAE_HIERARCHICAL_NCCL", settings.hierarchical_nccl);
  static constexpr std::array<std::string_view, 3> kDevice = {"auto", "nccl", "host"};
  std::size_t device = 0;
  read_choice(environment, "SULLAE_DEVICE_TRANSPORT", kDevice, device);
  settings.device_transport = static_cast<DeviceTransport>(device);
  return settings;
}

void CollectiveSettings::check() const {
  p2p::check_allreduce_algorithm(allreduce_algorithm);
  if (transport == "auto" || transport == "shm" || find_transport(transport) != nullptr) return;
  std::string known;
  for (const TransportKind& kind : transports()) known += ", " + kind.name;
  throw InputError(
      fmt::format("SULLAE_TRANSPORT='{}': expected one of auto, shm{}", transport, known));
}

}  // namespace sullae

#include "collective/settings.h"

#include <fmt/format.h>

#include <array>

#include "collective/p2p/allreduce_algorithms.h"
#include "sullae/error.h"
#include "transport/transports.h"

namespace sullae {
namespace {

// In the order of DeviceTransport.
constexpr std::array<std::string_view, 3> kDeviceTransports = {"auto", "nccl", "host"};

}  // namespace

CollectiveSettings CollectiveSettings::from(const Environment& environment) {
  CollectiveSettings settings{.waits = WaitSettings::from(environment)};
  read_text(environment, "SULLAE_TRANSPORT", settings.transport);
  read_text(environment, "SULLAE_ALLREDUCE_ALGORITHM", settings.allreduce_algorithm);
  read_switch(environment, "SULLAE_HIERARCHICAL_ADASUM", settings.hierarchical_adasum);
  read_switch(environment, "SULLAE_HIERARCHICAL_NCCL", settings.hierarchical_nccl);
  std::size_t device = 0;
  read_choice(environment, "SULLAE_DEVICE_TRANSPORT", kDeviceTransports, device);
  settings.device_transport = static_cast<DeviceTransport>(device);
  return settings;
}

std::string CollectiveSettings::of_all_ranks() const {
  return fmt::format(
      "SULLAE_TRANSPORT={}\nSULLAE_ALLREDUCE_ALGORITHM={}\nSULLAE_HIERARCHICAL_ADASUM={:d}\n"
      "SULLAE_DEVICE_TRANSPORT={}\nSULLAE_HIERARCHICAL_NCCL={:d}\n",
      transport, allreduce_algorithm, hierarchical_adasum,
      kDeviceTransports[static_cast<std::size_t>(device_transport)], hierarchical_nccl);
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

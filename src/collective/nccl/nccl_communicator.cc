#include "collective/nccl/nccl_communicator.h"

#include <cstdlib>

#include "base/host.h"
#include "collective/nccl/cuda.h"
#include "collective/nccl/nccl_group.h"

namespace sullae::nccl {

std::string identity_of(int device) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || device < 0 || device >= devices) return {};
  char bus[32] = {};
  check(cudaDeviceGetPCIBusId(bus, sizeof bus, device), "asking for a GPU's address");
  // Whoever tells NCCL which hosts there are has told us, too: it refuses two ranks on one GPU of
  // one host.
  const char* const host = std::getenv("NCCL_HOSTID");
  return (host == nullptr ? host_identity() : host) + "/" + bus;
}

std::unique_ptr<DeviceCommunicator> make(Rendezvous& rendezvous, const Options& options) {
  return std::make_unique<Group>(rendezvous, options, std::make_shared<Stream>(options.device));
}

}  // namespace sullae::nccl

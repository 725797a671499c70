#include "collective/nccl/nccl_communicator.h"

#include "base/host.h"
#include "collective/nccl/cuda.h"
#include "collective/nccl/nccl_group.h"

namespace sullae::nccl {

bool is_built() { return true; }

std::string identity_of(int device) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || device < 0 || device >= devices) return {};
  char bus[32] = {};
  check(cudaDeviceGetPCIBusId(bus, sizeof bus, device), "asking for a GPU's address");
  return host_identity() + "/" + bus;
}

std::unique_ptr<DeviceCommunicator> make(Rendezvous& rendezvous, const Options& options) {
  return std::make_unique<Group>(rendezvous, options, std::make_shared<Stream>(options.device));
}

}  // namespace sullae::nccl

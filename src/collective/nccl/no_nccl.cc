// Stands in for NCCL where the build found none.
#include "collective/nccl/nccl_communicator.h"
#include "sullae/error.h"

namespace sullae::nccl {

std::string identity_of(int) { return {}; }

std::unique_ptr<DeviceCommunicator> make(Rendezvous&, const Options&) {
  throw InputError("this build of Sullae has no NCCL");
}

std::unique_ptr<DeviceCommunicator> make_hierarchical(Rendezvous&, const Options&,
                                                      const GroupOptions&,
                                                      std::unique_ptr<Communicator>) {
  throw InputError("this build of Sullae has no NCCL");
}

}  // namespace sullae::nccl

// Messages between the ranks of one host, through shared memory.
#pragma once

#include <memory>
#include <vector>

#include "collective/messages/carrier.h"
#include "transport/rendezvous.h"

namespace sullae::messages {

struct ShmCarrierOptions {
  int rank = 0;            ///< of the world
  std::vector<int> ranks;  ///< of this host
  /// Reads large messages straight from the sender's memory (process_vm_readv) where the kernel
  /// allows it.
  bool may_fetch = true;
  /// Helps receivers of large messages: writes to their memory (process_vm_writev) while they read
  /// from this one's.
  bool may_help = true;
};

/// This rank can be reached once it returns; the others are looked for when they are first sent to.
/// `rendezvous` must outlive what it makes.
std::unique_ptr<Carrier> make_shm_carrier(Rendezvous& rendezvous, const ShmCarrierOptions& options);

}  // namespace sullae::messages

// What the environment says about how collectives run.
#pragma once

#include <string>

#include "transport/settings.h"

namespace sullae {

/// How CUDA tensors travel.
enum class DeviceTransport {
  automatic,  ///< by NCCL where it is built and every rank has a GPU of its own, else through host
              ///< memory
  nccl,
  host
};

struct CollectiveSettings {
  WaitSettings waits;
  /// SULLAE_TRANSPORT: "auto" (shared memory within a host, messages between hosts), "shm", or the
  /// name of one of transports(), for messages everywhere. A name, since programs may add
  /// transports.
  std::string transport = "auto";
  /// SULLAE_ALLREDUCE_ALGORITHM: of allreduce through messages: "auto" (by size and ranks), or the
  /// name of one of p2p::allreduce_algorithms().
  std::string allreduce_algorithm = "auto";
  /// SULLAE_HIERARCHICAL_ADASUM (0 or 1): adasum averages the ranks of a host and combines hosts,
  /// instead of combining all ranks.
  bool hierarchical_adasum = false;
  /// SULLAE_DEVICE_TRANSPORT: "auto", "nccl" or "host".
  DeviceTransport device_transport = DeviceTransport::automatic;
  /// SULLAE_HIERARCHICAL_NCCL (0 or 1): NCCL within a host, and messages through SULLAE_TRANSPORT
  /// between hosts.
  bool hierarchical_nccl = false;

  static CollectiveSettings from(const Environment& environment);
  /// Of those above, what is the same on all ranks of a world: lines of NAME=VALUE.
  std::string of_all_ranks() const;
  /// Throws InputError, with those that there are, for a transport or an algorithm that there is
  /// not.
  void check() const;
};

}  // namespace sullae

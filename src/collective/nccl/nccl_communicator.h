// Collectives on GPUs through NCCL, where the build found CUDA and NCCL.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "sullae/communicator.h"
#include "sullae/device.h"
#include "transport/failure.h"
#include "transport/rendezvous.h"

namespace sullae::nccl {

/// Which GPU it is, the same text for whoever on this host, or with this NCCL_HOSTID, asks for the
/// same one. Empty where there is none of that number.
std::string identity_of(int device);

struct GroupOptions {
  std::string name;        ///< distinguishes this group's keys in the rendezvous
  std::vector<int> ranks;  ///< world rank of each member, in order
  int index = 0;           ///< this process's place among them
};

struct Options {
  GroupOptions group;
  int device = 0;
  WaitLimit timeout{};             ///< of each operation
  WaitLimit rendezvous_timeout{};  ///< of making the communicator
  /// What has ended the world ends what is on the stream. Null: nothing does.
  std::shared_ptr<const Failure> failure = nullptr;
};

/// Collective. Throws Error when NCCL cannot join the ranks.
std::unique_ptr<DeviceCommunicator> make(Rendezvous& rendezvous, const Options& options);

/// Allreduce within each host by NCCL, and between hosts by `cross`, which joins the ranks of all
/// hosts with this one's local rank; everything else by NCCL over all. For networks that NCCL does
/// not know and UCX or MPI does. Every host must have the same number of ranks. Collective.
std::unique_ptr<DeviceCommunicator> make_hierarchical(Rendezvous& rendezvous,
                                                      const Options& options,
                                                      const GroupOptions& local,
                                                      std::unique_ptr<Communicator> cross);

}  // namespace sullae::nccl

// Chooses the communicator for a topology.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "collective/settings.h"
#include "collective/shm/shared_buffers.h"
#include "sullae/communicator.h"
#include "transport/failure.h"
#include "transport/rendezvous.h"
#include "transport/topology.h"

namespace sullae {

/// A channel is an independent set of collectives over the whole world. One thread at a time may
/// use it.
struct ChannelOptions {
  std::string name;
  /// Of those that share `buffers`, each has its own.
  std::uint8_t number = 0;
  /// Shared by all channels of a world, so that a buffer which one allocated is fast in all.
  std::shared_ptr<shm::SharedBuffers> buffers;
  /// Of the world that the channel belongs to: ends every wait once it happens. Never null.
  std::shared_ptr<const Failure> failure;
};

/// The name of what make_communicator() makes, as Communicator::backend() gives it.
std::string backend_of(const Topology& topology, const CollectiveSettings& settings);

/// Shared memory on one host, messages where every rank has a host of its own, both otherwise; or
/// what `settings.transport` asks for. Collective. `rendezvous` must outlive the communicator.
/// Throws InputError where the transport cannot serve the topology.
std::unique_ptr<Communicator> make_communicator(Rendezvous& rendezvous, const Topology& topology,
                                                const CollectiveSettings& settings,
                                                const ChannelOptions& channel);

/// Messages between the ranks of all hosts that have this rank's local rank. Throws InputError
/// unless every host has the same number of ranks. Collective.
std::unique_ptr<Communicator> make_cross_communicator(Rendezvous& rendezvous,
                                                      const Topology& topology,
                                                      const CollectiveSettings& settings,
                                                      const ChannelOptions& channel);

}  // namespace sullae

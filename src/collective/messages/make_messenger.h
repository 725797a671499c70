// Chooses what carries messages for a topology.
#pragma once

#include <memory>

#include "collective/messages/messenger.h"
#include "collective/settings.h"
#include "transport/failure.h"
#include "transport/rendezvous.h"
#include "transport/topology.h"

namespace sullae::messages {

/// Shared memory within this host and messages to others; or what `settings.transport` asks for.
/// Every rank of the world calls it. `rendezvous`, which a world of one lacks, must live until
/// close(), which waits for nobody once `cut_off` is set.
std::shared_ptr<Messenger> make_messenger(Rendezvous* rendezvous, const Topology& topology,
                                          const CollectiveSettings& settings,
                                          std::shared_ptr<const Failure> cut_off);

}  // namespace sullae::messages

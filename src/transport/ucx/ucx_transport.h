// Messages through OpenUCX: TCP, RoCE, InfiniBand, or whatever else UCX finds between two ranks.
// UCX_TLS and UCX's other variables choose, as in any program that uses UCX.
#pragma once

#include <memory>

#include "transport/store/store.h"
#include "transport/transports.h"

namespace sullae {

/// Whether this build has UCX.
bool ucx_is_available();

/// Collective. Groups of up to 64 ranks connect here, larger ones with the first message to a peer.
std::unique_ptr<Transport> make_ucx_transport(Rendezvous& rendezvous, TransportOptions options);

}  // namespace sullae

// Messages between hosts, or wherever a transport was asked for.
#pragma once

#include <memory>
#include <vector>

#include "collective/messages/carrier.h"
#include "transport/transport.h"

namespace sullae::messages {

/// `transport` is the carrier's alone, and its ranks are those of the world. `local` are not
/// reached: they have a carrier of their own.
std::unique_ptr<Carrier> make_transport_carrier(std::unique_ptr<Transport> transport,
                                                std::vector<int> local);

}  // namespace sullae::messages

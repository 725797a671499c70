// The server's end of the rendezvous store's address.
#pragma once

#include "base/fd.h"
#include "transport/store/address.h"

namespace sullae {

/// The host of an address at which a server listens on all of its host's addresses, of IPv6 and
/// IPv4.
inline constexpr const char* kEverywhere = "::";

/// Where a server listens for `resolved`, one of the addresses of `address`: on all of this host's
/// where the name is one that other hosts may know, but leads to this one's loopback here.
ResolvedAddress listening_address(const StoreAddress& address, const ResolvedAddress& resolved);

/// A socket that listens at the first of `address`'s addresses that can be had, or, where this host
/// has none of them, as one behind a service's address or a router's, everywhere. Throws Error.
UniqueFd listen_on(const StoreAddress& address);

/// The port that a socket listens at; 0 for a unix address.
int port_of(int fd);

}  // namespace sullae

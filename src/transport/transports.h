// The transports that carry messages between ranks, by name.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "transport/failure.h"
#include "transport/rendezvous.h"
#include "transport/transport.h"

namespace sullae {

struct TransportOptions {
  std::string name;                           ///< distinguishes this group's keys in the rendezvous
  std::vector<int> ranks;                     ///< world rank of each member, in order
  int index = 0;                              ///< this process's place among them
  WaitLimit timeout{};                        ///< of each wait
  std::chrono::milliseconds stall_warning{};  ///< after which a wait is reported; 0: never
  /// Ends every wait once it happens. Never null.
  std::shared_ptr<const Failure> failure = std::make_shared<Failure>();
};

struct TransportKind {
  /// As SULLAE_TRANSPORT names it.
  std::string name;
  /// Makes the transport of one group; every member calls it. `rendezvous` must outlive the
  /// transport.
  std::function<std::unique_ptr<Transport>(Rendezvous& rendezvous, TransportOptions options)> make;
};

/// What this build has, and what a program has added. The first is the default.
const std::vector<TransportKind>& transports();
/// Adds one, before the first world is made. Its name must be new.
void register_transport(TransportKind kind);
/// Null where there is none of that name.
const TransportKind* find_transport(const std::string& name);
/// The one of that name, or the first. Throws InputError where there is none.
const TransportKind& choose_transport(const std::string& name);

}  // namespace sullae

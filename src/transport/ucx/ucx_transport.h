// Messages through OpenUCX: TCP, RoCE, InfiniBand, or whatever else UCX finds between two ranks.
// UCX_TLS and UCX's other variables choose, as in any program that uses UCX.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "transport/store/store.h"
#include "transport/transport.h"

namespace sullae {

struct UcxOptions {
  std::string name;         ///< distinguishes this group's keys in the store
  std::vector<int> ranks;   ///< world rank of each member, in order
  int index = 0;            ///< this process's place among them
  bool background = false;  ///< wait without spinning, for a thread beside a training thread
  std::chrono::milliseconds timeout{};             ///< of each wait
  std::chrono::milliseconds rendezvous_timeout{};  ///< of finding a peer's address
};

/// Connects to a peer with the first message to it. `store` must outlive the transport.
std::unique_ptr<Transport> make_ucx_transport(Store& store, UcxOptions options);

}  // namespace sullae

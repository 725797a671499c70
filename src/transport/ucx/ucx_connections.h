// A transport's connections, and the worker of UCX's that has them.
#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "transport/ucx/lingering_sends.h"
#include "transport/ucx/ucx_worker.h"

namespace sullae::ucx {

/// Used by one thread at a time.
class Connections {
 public:
  explicit Connections(std::size_t peers)
      : peers_(peers), worker_(std::make_unique<Worker>(*context_)) {}
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  bool have_ended() const { return worker_ == nullptr; }
  /// Until they have.
  Worker& worker() { return *worker_; }
  /// Null where there is none yet.
  ucp_ep_h endpoint(int peer) const { return at(peer).endpoint; }
  ucs_status_t connect(int peer, const std::string& address);
  /// UCS_OK, or why the peer takes part no more.
  ucs_status_t failure(int peer) const { return at(peer).failure; }

  /// Closes all, after what was sent last has gone, for which `limit` is given, or where they are
  /// broken at once; then the worker goes. Once.
  void end(bool broken, std::chrono::milliseconds limit, LingeringSends& lingering);

 private:
  struct Peer {
    ucp_ep_h endpoint = nullptr;
    ucs_status_t failure = UCS_OK;
  };
  const Peer& at(int peer) const { return peers_[static_cast<std::size_t>(peer)]; }
  bool close_all(bool broken, std::chrono::milliseconds limit);
  bool calms_down();

  std::vector<Peer> peers_;  // which UCX has the addresses of
  std::unique_ptr<Context> context_ = std::make_unique<Context>();
  std::unique_ptr<Worker> worker_;
};

}  // namespace sullae::ucx

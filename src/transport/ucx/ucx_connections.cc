#include "transport/ucx/ucx_connections.h"

#include <thread>
#include <utility>

namespace sullae::ucx {
namespace {

using Clock = std::chrono::steady_clock;

// So long what UCX keeps of connections that were given up may take to end.
constexpr std::chrono::milliseconds kCalmLimit{100};
constexpr std::chrono::microseconds kCalmNap{50};

}  // namespace

ucs_status_t Connections::connect(int member, const std::string& address) {
  Peer& peer = peers_[static_cast<std::size_t>(member)];
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void* argument, ucp_ep_h, ucs_status_t status) {
    static_cast<Peer*>(argument)->failure = status;
  };
  params.err_handler.arg = &peer;
  // A connection that the peer made and that broke since must be noticed before: UCX 1.13 would
  // answer over it, fail, and later abort the process (uct_tcp_ep_connect adds the endpoint's
  // send capability after it was scheduled for destruction).
  while (ucp_worker_progress(worker_->handle) != 0) {
  }
  return ucp_ep_create(worker_->handle, &params, &peer.endpoint);
}

// A connection that was closed by force is in the worker's care until its last messages are thrown
// away: UCX 1.13 ends the process where the worker goes before (ucp_worker_destroy_eps). What does
// not end stays with the process.
void Connections::end(bool broken, std::chrono::milliseconds limit, LingeringSends& lingering) {
  if (!worker_) return;
  const bool by_force = close_all(broken, limit);
  const bool is_calm = !by_force || calms_down();
  if (!lingering.forget() || !is_calm) {
    static_cast<void>(worker_.release());
    static_cast<void>(context_.release());
  }
  worker_.reset();
}

// What was sent last may still be in UCX's buffers: closing flushes it, unless the peer is gone.
// True where some were closed by force.
bool Connections::close_all(bool broken, std::chrono::milliseconds limit) {
  std::vector<void*> closing;
  bool by_force = false;
  for (Peer& peer : peers_) {
    if (peer.endpoint == nullptr) continue;
    ucp_request_param_t params{};
    if (broken || peer.failure != UCS_OK) {
      params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
      params.flags = UCP_EP_CLOSE_FLAG_FORCE;
      by_force = true;
    }
    void* request = ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &params);
    if (UCS_PTR_IS_PTR(request)) closing.push_back(request);
  }
  const auto end = Clock::now() + limit;
  for (void* request : closing) {
    while (ucp_request_check_status(request) == UCS_INPROGRESS && Clock::now() < end)
      ucp_worker_progress(worker_->handle);
    ucp_request_free(request);
  }
  return by_force;
}

// False where the worker always has something to do.
bool Connections::calms_down() {
  constexpr int kQuietTurns = 50;
  const auto end = Clock::now() + kCalmLimit;
  for (int quiet = 0; quiet < kQuietTurns;) {
    if (Clock::now() >= end) return false;
    quiet = ucp_worker_progress(worker_->handle) == 0 ? quiet + 1 : 0;
    if (quiet > 0) std::this_thread::sleep_for(kCalmNap);
  }
  return true;
}

}  // namespace sullae::ucx

// Connections to servers.
#pragma once

#include <fmt/format.h>

#include <string>
#include <zmq.hpp>

#include "sullae/error.h"

namespace sullae::ps {

/// Where nobody listens (any more), ZeroMQ tries again, and keeps up to `most_queued` messages (0:
/// all).
inline zmq::socket_t connect(zmq::context_t& context, const std::string& server, int most_queued) {
  constexpr int kLeastMilliseconds = 20;
  constexpr int kMostMilliseconds = 500;
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::ipv6, 1);  // too
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, most_queued);
  socket.set(zmq::sockopt::rcvhwm, 0);
  socket.set(zmq::sockopt::reconnect_ivl, kLeastMilliseconds);
  socket.set(zmq::sockopt::reconnect_ivl_max, kMostMilliseconds);
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  try {
    socket.connect(server);
  } catch (const zmq::error_t& error) {
    throw InputError(fmt::format(
        "parameter server '{}': {}: expected an address as tcp://HOST:PORT", server, error.what()));
  }
  return socket;
}

}  // namespace sullae::ps

// An HTTP/1.1 server: connections, limits and timeouts.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "http/exchange.h"

namespace sullae::http {

struct ServerOptions {
  std::string host = "127.0.0.1";
  /// 0: any that is free.
  std::uint16_t port = 8000;
  /// What messages call it.
  const char* port_flag = "--port";
  int threads = 1;
  std::size_t max_body_bytes = std::size_t{64} << 20;
  /// Of all requests that are being read or answered.
  std::size_t max_inflight_bytes = std::size_t{512} << 20;
  /// Fewer where the process may not have so many descriptors.
  std::size_t max_connections = 10000;
  /// How long a client may take to send a request, from its first byte or the connection's start,
  /// and to take the answer.
  std::chrono::milliseconds read_timeout{30000};
  /// How long a connection may stay open between requests.
  std::chrono::milliseconds idle_timeout{75000};
  /// How long shutdown() waits for requests that are being answered.
  std::chrono::milliseconds drain_timeout{30000};
  /// PEM files; both or none.
  std::string tls_certificate = {};
  std::string tls_key = {};
};

/// Serves from the constructor until shutdown(). Any thread may call it.
class Server {
 public:
  /// `handler` must outlive this object. Throws Error for a port that is taken, and for files that
  /// are no certificate and key.
  Server(const ServerOptions& options, Handler& handler);
  ~Server();

  /// Where it listens.
  std::uint16_t port() const;
  std::size_t connections() const;
  /// At most.
  std::size_t max_connections() const;
  /// For all that clients send, in whatever way.
  Budget& budget();
  /// Takes no more connections. Requests that have begun have drain_timeout from here on. Returns
  /// at once.
  void drain();
  /// drain(), and ends when they are answered. Where they are not in time `late` is called, after
  /// which they have two seconds more. Whether all were answered; the destructor waits for the
  /// others.
  bool shutdown(const std::function<void()>& late = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sullae::http

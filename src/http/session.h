// A client's connection: one request after the other.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "http/server.h"

namespace sullae::http {

class Session {
 public:
  virtual ~Session() = default;
  /// Ends the connection where no request is being read or answered. Any thread.
  virtual void close_if_idle() = 0;
};

/// What sessions need of the server.
class SessionHost {
 public:
  virtual ~SessionHost() = default;
  virtual const ServerOptions& options() const = 0;
  virtual Handler& handler() = 0;
  virtual Budget& budget() = 0;
  virtual bool draining() const = 0;
  /// Of a request that is about to be handled, until what answers it lets go of this: the server
  /// outlives that.
  virtual std::shared_ptr<void> begin_answer() = 0;
  virtual void add(Session& session) = 0;
  virtual void remove(Session& session) = 0;
};

/// Serves `socket`, with TLS where there is a context, until either side ends it. The session lives
/// as long as it has something to do.
void start_session(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context* tls,
                   SessionHost& host);

}  // namespace sullae::http

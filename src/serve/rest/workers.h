// Threads beside those that read requests, and handlers that use them.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <functional>
#include <memory>

#include "http/exchange.h"
#include "serve/repository/repository.h"
#include "serve/rest/route.h"

namespace sullae::serve {

/// The C library keeps memory in pieces: after requests of such size it is asked to give back what
/// it can.
inline constexpr std::size_t kTrimmedBytes = std::size_t{4} << 20;

/// Each pool for what may take long in a way of its own.
struct Workers {
  Workers();

  boost::asio::thread_pool operators{4};  ///< what operators ask for, which may load a model
  boost::asio::thread_pool loaders{4};    ///< the same that waits for a store, which may hang
  boost::asio::thread_pool disk{4};       ///< what reads from the disk
  boost::asio::thread_pool writers{4};    ///< what writes there, which waits for others' locks
  boost::asio::thread_pool large;         ///< requests that take long to read
  /// Apart from those: some hundred bytes of a picture can take as long as megabytes of numbers.
  boost::asio::thread_pool images;
};

/// A large answer is part of the memory for all requests, as its request was, until it is sent.
/// Throws RequestError (unavailable).
http::Response counted(const std::shared_ptr<http::Reservation>& memory, http::Response response);

/// Throws RequestError (invalid) for a request with a body that says something.
void expect_no_body(const Call& call, const char* remedy);

using Answer = std::function<http::Response(const Call&)>;
/// A handler that answers at once.
Handler here(Answer answer);
/// A handler that answers in `pool`. Large answers are part of the memory for all requests until
/// they are sent.
Handler in(boost::asio::thread_pool& pool, Answer answer);

using Compute = std::function<void(Repository&, const Call&, const http::Respond&)>;
/// A handler that computes in the thread that read the request, unless that takes long.
Handler computed(Repository& repository, Workers& workers, Compute compute);

}  // namespace sullae::serve

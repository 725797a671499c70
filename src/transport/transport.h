// The seam for what moves messages between two ranks, wherever they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "sullae/error.h"

namespace sullae {

/// A message on its way. Made by Transport::send and receive, ended by Transport::wait, which every
/// request must reach.
struct Request {
  void* native = nullptr;  ///< the transport's own; null when done
  int peer = 0;
  std::size_t bytes = 0;
  bool receives = false;
};

/// Tagged messages between the ranks of a group. One thread at a time may call. Two messages with
/// the same tag between the same ranks arrive in the order in which they were sent.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "ucx", …
  virtual std::string name() const = 0;
  /// The name of rank `peer` in the world, for messages.
  virtual int world_rank(int peer) const = 0;

  /// Starts to send; the memory must stay as it is until the request is done. Messages may be
  /// empty.
  virtual Request send(int peer, std::uint64_t tag, const void* data, std::size_t bytes) = 0;
  /// Starts to receive a message of exactly `bytes`.
  virtual Request receive(int peer, std::uint64_t tag, void* data, std::size_t bytes) = 0;
  /// Waits until all are done. Throws PeerError when a peer is gone, TimeoutError at the group's
  /// limit, and MismatchError when a message has another length than the receiver expects. After
  /// PeerError or TimeoutError the transport is of no further use.
  virtual void wait(std::span<Request> requests) = 0;
  void wait(Request& request) { wait({&request, 1}); }

 protected:
  // The errors of wait(). `reason` is the library's own word for what happened.
  PeerError gone(int peer, std::string_view reason) const;
  TimeoutError late(int peer, const Deadline& deadline) const;
  /// `sent` is how many bytes came, or "more".
  MismatchError other_length(const Request& request, std::string_view sent) const;
};

/// A tag: the collective's number (24 bits) and a step within it (16 bits). The upper 24 bits are
/// the transport's.
constexpr std::uint64_t make_tag(std::uint64_t sequence, std::uint64_t step) {
  return (sequence & 0xffffffULL) << 16 | (step & 0xffffULL);
}

}  // namespace sullae

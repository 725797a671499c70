// The seam for what carries messages between this rank and some of the others.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "collective/messages/packet.h"

namespace sullae::messages {

/// The data of a large message on its way between `memory` here and rank `peer`.
struct Bulk {
  int peer = 0;
  std::uint64_t id = 0;  ///< of the offer
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  const void* source = nullptr;  ///< of one that is received: where it lies in the sender's process
  std::size_t moved = 0;
  /// The carrier's own, from the first call on; gone with this.
  std::shared_ptr<void> state;
};

/// Who takes part no more.
struct Gone {
  std::string who;    ///< the process and its host, or what the transport says
  bool died = false;  ///< or left
};

/// Packets between two ranks arrive in the order in which they were posted. One thread at a time
/// may call, but for sleep(). Ranks are those of the world.
class Carrier {
 public:
  using Take =
      std::function<void(int from, const Packet& packet, std::span<const std::byte> payload)>;

  virtual ~Carrier() = default;

  virtual bool reaches(int peer) const = 0;
  /// See Messenger.
  virtual std::string address() const { return {}; }
  virtual void learn(int peer, const std::string& address) {
    static_cast<void>(peer);
    static_cast<void>(address);
  }
  /// Copies both; false when there is no room now. Throws PeerError where the peer is known to be
  /// gone.
  virtual bool post(int peer, const Packet& packet, std::span<const std::byte> payload) = 0;
  /// Whether packets that were posted are not on their way yet.
  virtual bool has_outgoing() const { return false; }
  /// Gives packets that have come to `take`, a few at most; whether there were any.
  virtual bool poll(const Take& take) = 0;

  /// Whether an offer's data comes here without the sender's help: by receive() alone.
  virtual bool can_fetch(int peer) = 0;
  /// Moves some more of what was announced as ready; true when all of it has left this memory, or
  /// arrived in it. Throws PeerError.
  virtual bool send(Bulk& bulk) = 0;
  virtual bool receive(Bulk& bulk) = 0;
  /// Before the first receive(): what to tell the sender so that it may help(); nothing where it
  /// cannot.
  virtual std::optional<Packet> ask_for_help(Bulk& bulk) {
    static_cast<void>(bulk);
    return std::nullopt;
  }
  /// Does a part of what the receiver does in receive(), which asked for it; true when nothing is
  /// left to do.
  virtual bool help(const Bulk& bulk, const Packet& asked) {
    static_cast<void>(bulk);
    static_cast<void>(asked);
    return true;
  }

  /// Nothing while `peer` takes part, or where nobody knows. That an expected one goes is always
  /// noticed. What it sent before may still be there.
  virtual std::optional<Gone> gone(int peer, bool expected) = 0;
  /// The data of an offer of this rank is to be read no more, and there is no room for a packet
  /// that says so.
  virtual void take_back(std::uint64_t offer) { static_cast<void>(offer); }
  /// Whether the sender has done that, for what was fetched.
  virtual bool was_taken_back(const Bulk& bulk) {
    static_cast<void>(bulk);
    return false;
  }
  /// Lets go of a bulk's memory: it is neither read nor written any more. False where only
  /// abandon() can.
  virtual bool let_go(Bulk& bulk) = 0;
  /// Lets go of all memory of bulks after an error; when it returns none is read or written any
  /// more. The carrier may be of no further use.
  virtual void abandon() noexcept = 0;

  /// Whether looking again and again takes a processor from nobody.
  virtual bool may_spin() = 0;
  /// For a thread that has nothing to do: call prepare_sleep() before a last poll(), then sleep()
  /// at most for `limit` unless something comes in between. Any thread may call sleep() and wake().
  virtual std::uint64_t prepare_sleep() = 0;
  virtual void sleep(std::uint64_t prepared, std::chrono::microseconds limit) = 0;
  virtual void wake() noexcept = 0;
};

}  // namespace sullae::messages

// What travels between two ranks so that a message gets from one's memory into the other's.
//
//   message   a small message, data and all
//   offer     a large one: its data stays with the sender until the receiver has a place for it
//   ready     the receiver's answer: send the data (not needed where it can read the sender's memory)
//   help      the receiver copies the data itself, and the sender may do a part of that
//   part      a piece of that data, for a carrier that moves it in pieces
//   done      the receiver has all of it
//   refused   the receiver expects something else; the payload says what
//   left      the receiver has left the group that the message is for; without an id: that any is for
//   wanted    a rank needs what its group makes when it is first used
//   waits     a rank waits for another one of its group: whoever has left the group, or leaves it later, says so
//   withdrawn the sender has given up what it offered: its memory is to be read no more
#pragma once

#include <cstddef>
#include <cstdint>

#include "sullae/types.h"

namespace sullae::messages {

/// The most that a packet brings along; a larger message is offered.
inline constexpr std::size_t kMostPayload = 8192;
/// As many as a carrier gives or sends in a round, before other threads have their turn.
inline constexpr int kPacketsARound = 16;

enum class PacketKind : std::uint8_t {
  message,
  offer,
  ready,
  help,
  part,
  done,
  refused,
  left,
  withdrawn,
  wanted,
  waits
};

/// Plain data: it lies in shared memory and goes over networks.
struct Packet {
  PacketKind kind = PacketKind::message;
  DataType type = DataType::uint8;
  std::uint16_t copy = 0;     ///< of help: the receiver's SharedCopy
  std::int32_t tag = 0;       ///< of help: the copy's turn
  std::uint64_t context = 0;  ///< the group of ranks that the message belongs to
  std::uint64_t bytes = 0;    ///< of the whole message
  std::uint64_t id = 0;  ///< of an offer, unique among its sender's, and of what follows from it
  /// Of an offer: the data's address; of help: where it goes; of a part: its offset.
  std::uint64_t place = 0;
};
static_assert(sizeof(Packet) == 40);

}  // namespace sullae::messages

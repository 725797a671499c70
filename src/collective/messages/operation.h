// One send or receive of this rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "base/deadline.h"
#include "base/stall_warning.h"
#include "sullae/types.h"
#include "transport/failure.h"

namespace sullae::messages {

inline constexpr int kAnyPeer = -1;

/// The ranks that a message is for, apart from those of other groups. Ranks here are those of the
/// world.
struct Context {
  std::uint64_t number = 0;
  std::vector<int> members;
  /// Ends what waits. Never null.
  const Failure* failure = nullptr;
  /// A process set, which a rank may leave without leaving the world.
  bool is_set = false;
};

/// What bounds a wait that has become long.
struct Patience {
  Deadline deadline;
  StallWarning warning;
};

enum class Direction { send, receive };

struct Operation {
  /// Null when it was called blocking; else called once, by the messenger's own thread.
  using Finished = std::function<void(const Operation&)>;

  // A constructor instead of an aggregate's zeroes, which cost a small message a tenth of its time.
  Operation(Direction direction, const Context& its_context, int with, int its_tag,
            DataType its_type, void* data, std::size_t size)
      : sends(direction == Direction::send),
        type(its_type),
        peer(with),
        tag(its_tag),
        context(&its_context),
        failure(its_context.failure),
        memory(static_cast<std::byte*>(data)),
        bytes(size) {}

  /// Tags below 0 are not the user's, but those by which a process set's ranks find each other.
  bool is_bootstrap() const { return tag < 0; }
  const char* name() const { return is_bootstrap() ? "process set" : sends ? "send" : "receive"; }

  bool sends;
  bool done = false;
  DataType type;
  int peer;  ///< or kAnyPeer
  int tag;
  int source = kAnyPeer;   ///< who sent what was received
  const Context* context;  ///< lives until the operation has ended
  /// Ends it; of the context, unless something else is said.
  const Failure* failure;
  std::byte* memory;  ///< not written to by a send
  std::size_t bytes;
  std::exception_ptr error;
  Finished finished;
  /// Null until there was nothing to do: most messages wait for less than it takes to read a clock.
  std::unique_ptr<Patience> patience;
};

}  // namespace sullae::messages

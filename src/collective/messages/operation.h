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

/// The ranks that a message is for, apart from those of other groups. Ranks here are those of the world.
struct Context {
  std::uint64_t number = 0;
  std::vector<int> members;
  /// Ends what waits. Never null.
  const Failure* failure = nullptr;
};

/// What bounds a wait that has become long.
struct Patience {
  Deadline deadline;
  StallWarning warning;
};

struct Operation {
  /// Null when it was called blocking; else called once, by the messenger's own thread.
  using Finished = std::function<void(const Operation&)>;

  bool sends = false;
  const Context* context = nullptr;  ///< lives until the operation has ended
  int peer = kAnyPeer;
  int tag = 0;
  DataType type = DataType::uint8;
  std::byte* memory = nullptr;  ///< not written to by a send
  std::size_t bytes = 0;
  Finished finished;

  // What became of it.
  bool done = false;
  std::exception_ptr error;
  int source = kAnyPeer;  ///< who sent what was received

  /// Null until there was nothing to do: most messages wait for less than it takes to read a clock.
  std::unique_ptr<Patience> patience;
};

}  // namespace sullae::messages

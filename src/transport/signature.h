// What a rank says it is about to do, compared between ranks before data moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sullae/types.h"

namespace sullae {

enum class Operation : std::uint8_t {
  allreduce = 1,
  allgather,
  broadcast,
  reduce,
  reducescatter,
  alltoall,
  barrier,
  allocate,
  composed,
};

/// More than any Operation's number.
inline constexpr std::size_t kOperations = static_cast<std::size_t>(Operation::composed) + 1;

std::string_view name(Operation operation);

struct Signature {
  Operation operation = Operation::barrier;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  std::uint8_t reserved = 0;
  std::int32_t root = -1;
  /// Elements; for collectives with a count a rank, a hash of all the counts.
  std::uint64_t count = 0;
  /// A hash of the operation's label; 0 without one. See Labels.
  std::uint64_t label = 0;

  bool operator==(const Signature&) const = default;
  /// "allreduce (sum) of 12 float32", for messages.
  std::string describe() const;
};
static_assert(sizeof(Signature) == 24);

}  // namespace sullae

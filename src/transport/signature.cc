#include "transport/signature.h"

#include <fmt/format.h>

namespace sullae {

std::string_view name(Operation operation) {
  switch (operation) {
    case Operation::allreduce:
      return "allreduce";
    case Operation::allgather:
      return "allgather";
    case Operation::broadcast:
      return "broadcast";
    case Operation::reduce:
      return "reduce";
    case Operation::reducescatter:
      return "reducescatter";
    case Operation::alltoall:
      return "alltoall";
    case Operation::barrier:
      return "barrier";
    case Operation::allocate:
      return "allocate_shared";
    case Operation::composed:
      return "operation";
  }
  return "unknown operation";
}

std::string Signature::describe() const {
  switch (operation) {
    case Operation::barrier:
      return "barrier";
    case Operation::allreduce:
      return fmt::format("allreduce ({}) of {} {}", name(op), count, name(type));
    case Operation::reduce:
      return fmt::format("reduce ({}) of {} {} to root {}", name(op), count, name(type), root);
    case Operation::broadcast:
      return fmt::format("broadcast of {} {} from root {}", count, name(type), root);
    case Operation::reducescatter:
      return fmt::format("reducescatter ({}) of {} with counts of hash {:x}", name(op), name(type),
                         count);
    case Operation::allgather:
    case Operation::alltoall:
      return fmt::format("{} of {} with counts of hash {:x}", name(operation), name(type), count);
    case Operation::allocate:
      return fmt::format("allocate_shared of {} bytes", count);
    case Operation::composed:
      return "an operation";
  }
  return "an unknown operation";
}

}  // namespace sullae

#include "engine/negotiation/request.h"

#include <fmt/format.h>

#include <span>

namespace sullae::engine {
namespace {

// "(4, 4, 7)", cut where it gets long.
std::string list(std::span<const std::uint64_t> sizes) {
  constexpr std::size_t kMost = 8;
  const auto shown = sizes.first(std::min(sizes.size(), kMost));
  return fmt::format("({}{})", fmt::join(shown, ", "),
                     sizes.size() > kMost ? fmt::format(", … {} in all", sizes.size()) : "");
}

}  // namespace

std::string Request::describe() const {
  std::string text;
  switch (signature.operation) {
    case Operation::composed:
      return shape;
    case Operation::allgather:
      text =
          fmt::format("allgather of {} with counts {}", sullae::name(signature.type), list(sizes));
      break;
    case Operation::reducescatter:
      text = fmt::format("reducescatter ({}) of {} with counts {}", sullae::name(signature.op),
                         sullae::name(signature.type), list(sizes));
      break;
    case Operation::alltoall:
      text = fmt::format("alltoall of {}", sullae::name(signature.type));
      break;
    default:
      text = signature.describe();
      if (!sizes.empty()) text += fmt::format(" in tensors of {}", list(sizes));
  }
  if (!shape.empty()) text += ' ' + shape;
  if (!compression.empty()) text += ", compressed by " + compression;
  if (prescale != 1.0) text += fmt::format(", prescale {}", prescale);
  if (postscale != 1.0) text += fmt::format(", postscale {}", postscale);
  return text;
}

}  // namespace sullae::engine

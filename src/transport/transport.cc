#include "transport/transport.h"

#include <fmt/format.h>

namespace sullae {

PeerError Transport::gone(int peer, std::string_view reason) const {
  return {world_rank(peer), fmt::format("rank {} died or left while rank {} waited for it ({})",
                                        world_rank(peer), world_rank(rank()), reason)};
}

TimeoutError Transport::late(int peer, const Deadline& deadline) const {
  return TimeoutError(fmt::format("rank {} waited for rank {}, which did not join {}",
                                  world_rank(rank()), world_rank(peer), deadline.describe()));
}

MismatchError Transport::other_length(const Request& request, std::string_view sent) const {
  return MismatchError(fmt::format(
      "rank {} expected {} bytes from rank {}, which sent {}: the ranks called collectives of "
      "different sizes",
      world_rank(rank()), request.bytes, world_rank(request.peer), sent));
}

}  // namespace sullae

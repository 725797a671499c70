#include "collective/messages/message_rendezvous.h"

namespace sullae::messages {

void MessageRendezvous::put(std::span<const int> to, std::string_view key, std::string_view value) {
  for (const int rank : to) group_->put(rank, key, value, *failure_);
}

std::string MessageRendezvous::get(int from, std::string_view key) {
  return group_->get(from, key, *failure_);
}

// Everybody hears everybody, so that each notices for itself who is gone.
void MessageRendezvous::fence(std::span<const int> ranks, std::string_view key) {
  put(ranks, key, {});
  for (const int rank : ranks) get(rank, key);
}

}  // namespace sullae::messages

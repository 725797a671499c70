#include "transport/store/store_rendezvous.h"

#include <fmt/format.h>

namespace sullae {

void StoreRendezvous::put(std::span<const int>, std::string_view key, std::string_view value) {
  store_.set(fmt::format("{}/{}", key, rank_), value, deadline());
}

std::string StoreRendezvous::get(int from, std::string_view key) {
  return store_.get(fmt::format("{}/{}", key, from), deadline());
}

// Two requests a rank, however many there are.
void StoreRendezvous::fence(std::span<const int> ranks, std::string_view key) {
  const Deadline limit = deadline();
  if (store_.add(key, 1, limit) == static_cast<long long>(ranks.size()))
    store_.set(key, "all", limit);
  store_.get(key, limit);
}

}  // namespace sullae

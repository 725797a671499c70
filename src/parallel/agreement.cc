#include "parallel/agreement.h"

#include <fmt/format.h>

#include <numeric>

#include "collective/gather_texts.h"
#include "sullae/adapter.h"
#include "sullae/communicator.h"

namespace sullae {

std::vector<std::string> texts_of_all(const World& world, const std::string& mine) {
  std::vector<std::string> all;
  AdapterView(world).run(
      [&](Communicator& communicator) { all = gather_texts(communicator, mine); },
      {.name = "agreement"});
  return all;
}

World own_world_like(const World& world) {
  if (world.size() == 1) return world;
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return *world.process_set(ranks);
}

void check_same_on_all(const World& world, const std::string& what, const std::string& mine) {
  const auto all = texts_of_all(world, mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0])
      throw MismatchError(
          fmt::format("ranks disagree about {}: it is {} on rank 0, and {} on rank {}", what,
                      all[0], all[rank], rank));
  }
}

}  // namespace sullae

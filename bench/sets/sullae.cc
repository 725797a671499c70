#include "sullae/sullae.h"

#include "measure.h"

int main() {
  const sullae::World world = sullae::init();
  std::vector<sullae::World> sets;
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  for (int rank = 0; rank < world.size(); ++rank) all[static_cast<std::size_t>(rank)] = rank;
  const sullae::World whole = *world.process_set(all);
  bench::run(
      world.rank(), world.size(), [&] { world.barrier(); },
      [&](const std::vector<int>& members) {
        if (auto set = world.process_set(members)) sets.push_back(*set);
      },
      [&] { whole.barrier(); });
  sets.clear();
  sullae::shutdown();
}

#include "torch/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "base/error_text.h"
#include "base/hash.h"
#include "base/split.h"
#include "collective/allgather_texts.h"
#include "sullae/adapter.h"
#include "sullae/communicator.h"
#include "torch/broadcast_text.h"

namespace sullae {

std::vector<std::string> allgather_texts(const World& world, const std::string& mine) {
  std::vector<std::string> all;
  AdapterView(world).run(
      [&](Communicator& communicator) { all = allgather_texts(communicator, mine); },
      {.name = "agreement"});
  return all;
}

std::optional<std::vector<std::string>> texts_where_different(const World& world,
                                                              const std::string& mine) {
  const auto digest = static_cast<std::int64_t>(fnv1a(mine));
  std::vector<std::int64_t> digests(static_cast<std::size_t>(world.size()));
  world.allgather(&digest, digests.data(), 1, DataType::int64);
  if (std::ranges::count(digests, digest) == world.size()) return std::nullopt;
  return allgather_texts(world, mine);
}

std::optional<Difference> first_difference(const World& world, const std::string& mine) {
  const auto all = texts_where_different(world, mine);
  if (!all) return std::nullopt;
  const auto other =
      std::ranges::find_if(*all, [&](const auto& one) { return one != all->front(); });
  const auto first = split(all->front(), '\n');
  const auto second = split(*other, '\n');
  const auto [here, there] = std::ranges::mismatch(first, second);
  return Difference{.rank = static_cast<int>(other - all->begin()),
                    .line = static_cast<std::size_t>(here - first.begin()),
                    .on_rank_0 = here == first.end() ? "" : *here,
                    .on_rank = there == second.end() ? "" : *there};
}

void throw_on_all(const World& world, const std::string& problem) {
  for (const std::string& text : allgather_texts(world, problem)) {
    if (!text.empty()) throw InputError(text);
  }
}

void on_root(const World& world, int root, const std::function<void()>& what) {
  enum : char { checkpoint = 'c', input = 'i', other = 'o' };
  std::string problem;
  if (world.rank() == root) {
    try {
      what();
    } catch (const PeerError&) {
      throw;
    } catch (const TimeoutError&) {
      throw;
    } catch (const CheckpointError& error) {
      problem = std::string(1, checkpoint) + error.what();
    } catch (const InputError& error) {
      problem = std::string(1, input) + error.what();
    } catch (const std::exception& error) {
      problem = std::string(1, other) + message_of(error);
    }
  }
  problem = broadcast_text(std::move(problem), root, world);
  if (problem.empty()) return;
  const auto message = problem.substr(1);
  if (problem[0] == checkpoint) throw CheckpointError(message);
  if (problem[0] == input) throw InputError(message);
  throw Error(message);
}

World own_world_like(const World& world) {
  if (world.size() == 1) return world;
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return *world.process_set(ranks);
}

void check_same_on_all(const World& world, const std::string& what, const std::string& mine) {
  const auto all = allgather_texts(world, mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0])
      throw MismatchError(
          fmt::format("ranks disagree about {}: it is {} on rank 0, and {} on rank {}", what,
                      all[0], all[rank], rank));
  }
}

}  // namespace sullae

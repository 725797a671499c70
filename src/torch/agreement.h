// What all ranks must give alike, and where they say so.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sullae/sullae.h"

namespace sullae {

/// Every rank's text. Collective.
std::vector<std::string> allgather_texts(const World& world, const std::string& mine);

/// The same where any differ, and nothing where all are `mine`, which costs a number of each.
/// Collective.
std::optional<std::vector<std::string>> texts_where_different(const World& world,
                                                              const std::string& mine);

/// Of ranks whose texts differ the first whose text is another than rank 0's, and the first line in
/// which it is; a line that one has not is empty.
struct Difference {
  int rank = 0;
  std::size_t line = 0;
  std::string on_rank_0;
  std::string on_rank;
};
/// Nothing where all texts are `mine`. Collective.
std::optional<Difference> first_difference(const World& world, const std::string& mine);

/// Throws InputError on all ranks, with the problem of the first that has one; none is empty.
/// Before anything else: the others would wait for that rank. Collective.
void throw_on_all(const World& world, const std::string& problem);

/// Runs `what` on `root`. What it throws there, all ranks throw: InputError, CheckpointError or
/// Error, with its message; those of the world itself (PeerError, TimeoutError) stay where they
/// are. Collective.
void on_root(const World& world, int root, const std::function<void()>& what);

/// A world of the same ranks, so that what it is used for meets nobody else's use of `world`.
/// Collective.
World own_world_like(const World& world);

/// Before anything else: ranks that go on differently would wait for each other. Throws
/// MismatchError, on every rank, where texts differ: "ranks disagree about `what`: it is … on rank
/// 0, and … on rank 3". Collective.
void check_same_on_all(const World& world, const std::string& what, const std::string& mine);

}  // namespace sullae

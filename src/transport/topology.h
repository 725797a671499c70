// Which rank is on which host.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "transport/store/store.h"

namespace sullae {

/// Hosts are numbered in the order of their lowest rank.
struct Topology {
  int rank = 0;
  int size = 1;
  /// World ranks on each host, ascending.
  std::vector<std::vector<int>> hosts{{0}};
  /// Index of each rank's host in `hosts`, and of the rank in there.
  std::vector<int> host_of{0};
  std::vector<int> local_rank_of{0};
  /// What messages call each rank: its rank in the world that init() joined.
  std::vector<int> names{0};

  const std::vector<int>& local_ranks() const {
    return hosts[static_cast<std::size_t>(cross_rank())];
  }
  int local_rank() const { return local_rank_of[static_cast<std::size_t>(rank)]; }
  int local_size() const { return static_cast<int>(local_ranks().size()); }
  int cross_rank() const { return host_of[static_cast<std::size_t>(rank)]; }
  int cross_size() const { return static_cast<int>(hosts.size()); }
  /// All hosts have equally many ranks.
  bool is_homogeneous() const {
    return std::ranges::all_of(
        hosts, [this](const auto& ranks) { return ranks.size() == hosts.front().size(); });
  }

  /// The same hosts with some of the ranks, which are numbered anew in the order given. This rank
  /// must be among them.
  Topology subset(const std::vector<int>& ranks) const;
  /// The names of `ranks`.
  std::vector<int> names_of(const std::vector<int>& ranks) const;

  /// From every rank's host identity, in the order of ranks.
  static Topology from_hosts(int rank, const std::vector<std::string>& identities);
  /// Tells the others this rank's host through the store and learns theirs, and that all have the
  /// same `settings`, which are lines of NAME=VALUE. Throws TimeoutError that lists the ranks which
  /// did not come, and InputError, on all ranks, for settings that differ.
  static Topology discover(Store& store, int rank, int size, const std::string& identity,
                           const std::string& settings, const Deadline& deadline);
};

}  // namespace sullae

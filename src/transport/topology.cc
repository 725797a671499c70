#include "transport/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/failpoint.h"
#include "base/host.h"
#include "sullae/error.h"

namespace sullae {

Topology Topology::from_hosts(int rank, const std::vector<std::string>& identities) {
  Topology topology;
  topology.rank = rank;
  topology.size = static_cast<int>(identities.size());
  topology.hosts.clear();
  topology.host_of.clear();
  topology.local_rank_of.clear();
  std::vector<std::string> known;
  for (int r = 0; r < topology.size; ++r) {
    const auto& identity = identities[static_cast<std::size_t>(r)];
    const auto found = std::ranges::find(known, identity);
    const auto host = static_cast<std::size_t>(found - known.begin());
    if (found == known.end()) {
      known.push_back(identity);
      topology.hosts.emplace_back();
    }
    topology.host_of.push_back(static_cast<int>(host));
    topology.local_rank_of.push_back(static_cast<int>(topology.hosts[host].size()));
    topology.hosts[host].push_back(r);
  }
  topology.names.resize(identities.size());
  std::iota(topology.names.begin(), topology.names.end(), 0);
  return topology;
}

Topology Topology::subset(const std::vector<int>& ranks) const {
  std::vector<std::string> identities;
  for (const int r : ranks)
    identities.push_back(fmt::to_string(host_of[static_cast<std::size_t>(r)]));
  const auto own = std::ranges::find(ranks, rank) - ranks.begin();
  Topology topology = from_hosts(static_cast<int>(own), identities);
  topology.names = names_of(ranks);
  return topology;
}

std::vector<int> Topology::names_of(const std::vector<int>& ranks) const {
  std::vector<int> chosen;
  for (const int r : ranks) chosen.push_back(names[static_cast<std::size_t>(r)]);
  return chosen;
}

Topology Topology::discover(Store& store, int rank, int size, const std::string& identity,
                            const Deadline& deadline) {
  const auto key = [](int r) {
    return fmt::format("host/{}", r);
  };
  if (store.add(fmt::format("claimed/{}", rank), 1, deadline) != 1) {
    throw InputError(fmt::format(
        "two processes both say that they are rank {} of {}: each rank must be started once", rank,
        size));
  }
  failpoint("rendezvous.claimed");
  store.set(key(rank), identity, deadline);
  failpoint("rendezvous.announced");
  std::vector<std::string> identities;
  for (int r = 0; r < size; ++r) {
    try {
      identities.push_back(store.get(key(r), deadline));
    } catch (const TimeoutError&) {
      throw TimeoutError(
          fmt::format("rank {} of {} (on {}) waited for rank {}, which did not come {}", rank, size,
                      host_name(), r, deadline.describe()));
    }
  }
  failpoint("rendezvous.known");
  return from_hosts(rank, identities);
}

}  // namespace sullae

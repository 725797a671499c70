#include "transport/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "base/failpoint.h"
#include "base/host.h"
#include "sullae/error.h"
#include "transport/joining_keys.h"

namespace sullae {
namespace {

// Between a rank's settings and the name of its host: in neither.
constexpr char kEnd = '\0';

std::string take_line(std::string_view& text) {
  const auto end = std::min(text.find('\n'), text.size());
  std::string line(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return line.empty() ? "fewer settings" : line;
}

// Else ranks would take different ways, and wait for each other there.
void expect_alike(std::string_view first, int rank, std::string_view others) {
  while (first != others) {
    const auto expected = take_line(first);
    const auto line = take_line(others);
    if (line != expected)
      throw InputError(
          fmt::format("rank 0 has {}, and rank {} has {}: expected the same on all ranks", expected,
                      rank, line));
  }
}

}  // namespace

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
                            const std::string& settings, const Deadline& deadline) {
  if (store.add(fmt::format("claimed/{}", rank), 1, deadline) != 1) {
    throw InputError(fmt::format(
        "two processes both say that they are rank {} of {}: each rank must be started once", rank,
        size));
  }
  failpoint("rendezvous.claimed");
  store.set(joining_key(rank), settings + kEnd + identity, deadline);
  failpoint("rendezvous.announced");
  std::vector<std::string> identities;
  std::string first;
  for (int r = 0; r < size; ++r) {
    try {
      const auto told = store.get(joining_key(r), deadline);
      if (told == kHasEnded)
        throw PeerError(r, fmt::format("rank {} has ended before it came, and rank {} of {} waits "
                                       "for it in vain: look at its own output first",
                                       r, rank, size));
      const auto end = std::min(told.find(kEnd), told.size());
      const auto others = told.substr(0, end);
      identities.push_back(told.substr(std::min(end + 1, told.size())));
      if (r == 0) first = others;
      expect_alike(first, r, others);
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

#include "collective/make_communicator.h"

#include <fmt/format.h>

#include <numeric>

#include "collective/hierarchical/hierarchical_communicator.h"
#include "collective/p2p/allreduce_algorithms.h"
#include "collective/p2p/p2p_communicator.h"
#include "collective/self_communicator.h"
#include "collective/shm/shm_communicator.h"
#include "sullae/error.h"
#include "transport/transports.h"

namespace sullae {
namespace {

enum class Kind { self, local, flat, hierarchical };

// Throws InputError where the transport cannot serve the topology.
Kind choose(const Topology& topology, const CollectiveSettings& settings) {
  if (topology.size == 1) return Kind::self;
  if (find_transport(settings.transport) != nullptr) return Kind::flat;
  if (topology.cross_size() == 1) return Kind::local;
  if (settings.transport == "shm") {
    throw InputError(fmt::format(
        "SULLAE_TRANSPORT=shm serves one host, but the {} ranks are on {} hosts: use auto or ucx",
        topology.size, topology.cross_size()));
  }
  return topology.cross_size() == topology.size ? Kind::flat : Kind::hierarchical;
}

class Maker {
 public:
  Maker(Rendezvous& rendezvous, const Topology& topology, const CollectiveSettings& settings,
        const ChannelOptions& channel)
      : rendezvous_(rendezvous), topology_(topology), settings_(settings), channel_(channel) {}

  std::unique_ptr<Communicator> local() {
    if (topology_.local_size() == 1) return std::make_unique<SelfCommunicator>();
    return std::make_unique<shm::ShmCommunicator>(
        rendezvous_,
        shm::GroupOptions{.name = fmt::format("{}/host{}", channel_.name, topology_.cross_rank()),
                          .ranks = topology_.names_of(topology_.local_ranks()),
                          .index = topology_.local_rank(),
                          .timeout = settings_.waits.timeout,
                          .stall_warning = settings_.waits.stall_warning,
                          .failure = channel_.failure},
        channel_.number, channel_.buffers);
  }

  std::unique_ptr<Communicator> flat() {
    std::vector<int> ranks(static_cast<std::size_t>(topology_.size));
    std::iota(ranks.begin(), ranks.end(), 0);
    return p2p("flat", ranks, topology_.rank);
  }

  // Null where some host has no rank with this local rank.
  std::unique_ptr<Communicator> cross() {
    const auto local_rank = static_cast<std::size_t>(topology_.local_rank());
    std::vector<int> ranks;
    for (const auto& host : topology_.hosts) {
      if (local_rank >= host.size()) return nullptr;
      ranks.push_back(host[local_rank]);
    }
    return p2p(fmt::format("cross{}", local_rank), ranks, topology_.cross_rank());
  }

 private:
  std::unique_ptr<Communicator> p2p(const std::string& name, const std::vector<int>& ranks,
                                    int index) {
    return std::make_unique<P2pCommunicator>(
        choose_transport(settings_.transport)
            .make(rendezvous_, {.name = channel_.name + '/' + name,
                                .ranks = topology_.names_of(ranks),
                                .index = index,
                                .timeout = settings_.waits.timeout,
                                .stall_warning = settings_.waits.stall_warning,
                                .failure = channel_.failure}),
        settings_.allreduce_algorithm);
  }

  Rendezvous& rendezvous_;
  const Topology& topology_;
  const CollectiveSettings& settings_;
  const ChannelOptions& channel_;
};

}  // namespace

std::string backend_of(const Topology& topology, const CollectiveSettings& settings) {
  const Kind kind = choose(topology, settings);
  if (kind == Kind::self) return "self";
  if (kind == Kind::local) return "shm";
  const std::string& transport = choose_transport(settings.transport).name;
  if (kind == Kind::flat) return transport;
  return (topology.local_size() == 1 ? "self+" : "shm+") + transport;
}

std::unique_ptr<Communicator> make_communicator(Rendezvous& rendezvous, const Topology& topology,
                                                const CollectiveSettings& settings,
                                                const ChannelOptions& channel) {
  Maker maker(rendezvous, topology, settings, channel);
  switch (choose(topology, settings)) {
    case Kind::self:
      return std::make_unique<SelfCommunicator>();
    case Kind::local:
      return maker.local();
    case Kind::flat:
      return maker.flat();
    case Kind::hierarchical:
      break;
  }
  auto local = maker.local();
  auto cross = maker.cross();
  return std::make_unique<HierarchicalCommunicator>(
      topology, std::move(local), std::move(cross), maker.flat(),
      HierarchicalOptions{settings.hierarchical_adasum});
}

std::unique_ptr<Communicator> make_cross_communicator(Rendezvous& rendezvous,
                                                      const Topology& topology,
                                                      const CollectiveSettings& settings,
                                                      const ChannelOptions& channel) {
  const auto ranks = topology.hosts.front().size();
  for (const auto& host : topology.hosts) {
    if (host.size() == ranks) continue;
    throw InputError(
        fmt::format("SULLAE_HIERARCHICAL_NCCL=1: one host has {} ranks and another {}: expected "
                    "the same number",
                    ranks, host.size()));
  }
  if (topology.cross_size() == 1) return std::make_unique<SelfCommunicator>();
  return Maker(rendezvous, topology, settings, channel).cross();
}

}  // namespace sullae

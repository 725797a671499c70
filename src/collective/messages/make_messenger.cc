#include "collective/messages/make_messenger.h"

#include "collective/messages/shm_carrier.h"
#include "collective/messages/transport_carrier.h"
#include "transport/transports.h"

namespace sullae::messages {
std::shared_ptr<Messenger> make_messenger(Rendezvous* rendezvous, const Topology& topology,
                                          const CollectiveSettings& settings,
                                          std::shared_ptr<const Failure> cut_off) {
  const MessengerOptions options{.rank = topology.rank,
                                 .size = topology.size,
                                 .timeout = settings.waits.timeout,
                                 .stall_warning = settings.waits.stall_warning};
  std::vector<std::unique_ptr<Carrier>> carriers;
  if (topology.size > 1) {
    const bool asked = find_transport(settings.transport) != nullptr;
    std::vector<int> local;
    if (!asked && topology.local_size() > 1) {
      local = topology.local_ranks();
      carriers.push_back(make_shm_carrier(*rendezvous, {.rank = topology.rank, .ranks = local}));
    }
    if (asked || topology.cross_size() > 1) {
      auto transport = choose_transport(settings.transport)
                           .make(*rendezvous, {.name = "messages",
                                               .ranks = topology.names,
                                               .index = topology.rank,
                                               .timeout = settings.waits.timeout,
                                               .stall_warning = settings.waits.stall_warning,
                                               .failure = std::move(cut_off)});
      carriers.push_back(make_transport_carrier(std::move(transport), std::move(local)));
    }
  }
  return std::make_shared<Messenger>(options, std::move(carriers));
}

}  // namespace sullae::messages

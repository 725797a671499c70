#include "world/session.h"

#include <fmt/format.h>

#include "base/host.h"
#include "transport/store/store_rendezvous.h"

namespace sullae {

WorldSettings WorldSettings::from(const Environment& environment, const WorldOptions& options) {
  WorldSettings settings{.rendezvous = RendezvousSettings::from(environment),
                         .collective = CollectiveSettings::from(environment)};
  RendezvousSettings& rendezvous = settings.rendezvous;
  if (!options.host_id.empty()) rendezvous.host_id = options.host_id;
  if (rendezvous.host_id.empty()) rendezvous.host_id = host_identity();
  if (options.rendezvous_timeout.count() > 0)
    rendezvous.timeout = {options.rendezvous_timeout, "the world's rendezvous timeout"};
  if (!options.transport.empty()) settings.collective.transport = options.transport;
  if (options.timeout.count() > 0)
    settings.collective.waits.timeout = {options.timeout, "the world's timeout"};
  settings.collective.check();
  settings.engine = engine::EngineOptions::from(environment, settings.collective.waits);
  return settings;
}

Session::Session(const WorldOptions& options)
    : settings(WorldSettings::from(process_environment(), options)) {
  if (options.size == 1) return;
  const Deadline deadline(settings.rendezvous.timeout);
  const StoreAddress address = StoreAddress::parse(options.store);
  if (options.serve_store && options.rank == 0)
    server = std::make_unique<StoreServer>(address, settings.rendezvous.job_secret);
  store = std::make_unique<Store>(address, deadline, fmt::format("{}/", options.generation),
                                  settings.rendezvous.job_secret);
  rendezvous = std::make_unique<StoreRendezvous>(*store, options.rank, settings.rendezvous.timeout);
}

Session::~Session() {
  if (messenger) messenger->close();
  store.reset();
  if (server) server->drain();
}

}  // namespace sullae

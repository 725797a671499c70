#include "world/session.h"

#include <fmt/format.h>

#include "base/host.h"
#include "collective/make_communicator.h"
#include "transport/store/store_rendezvous.h"

namespace sullae {
namespace {

Config merge(const WorldOptions& options) {
  Config config = Config::from(process_environment());
  if (!options.transport.empty()) config.transport = options.transport;
  if (!options.host_id.empty()) config.host_id = options.host_id;
  if (options.timeout.count() > 0) config.timeout = options.timeout;
  if (options.rendezvous_timeout.count() > 0)
    config.rendezvous_timeout = options.rendezvous_timeout;
  if (config.host_id.empty()) config.host_id = host_identity();
  check_choices(config);
  return config;
}

}  // namespace

Session::Session(const WorldOptions& options) : config(merge(options)) {
  if (options.size == 1) return;
  const Deadline deadline(config.rendezvous_timeout, "SULLAE_RENDEZVOUS_TIMEOUT");
  const StoreAddress address = StoreAddress::parse(options.store);
  if (options.serve_store && options.rank == 0)
    server = std::make_unique<StoreServer>(address, config.job_secret);
  store = std::make_unique<Store>(address, deadline, fmt::format("{}/", options.generation),
                                  config.job_secret);
  rendezvous = std::make_unique<StoreRendezvous>(*store, options.rank, config.rendezvous_timeout);
}

Session::~Session() {
  if (messenger) messenger->close();
  store.reset();
  if (server) server->drain();
}

}  // namespace sullae

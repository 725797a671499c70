// What a world and its process sets share.
#pragma once

#include <memory>

#include "collective/messages/messenger.h"
#include "collective/settings.h"
#include "engine/engine_options.h"
#include "engine/set_watch.h"
#include "sullae/sullae.h"
#include "transport/failure.h"
#include "transport/rendezvous.h"
#include "transport/settings.h"
#include "transport/store/store.h"
#include "transport/store/store_server.h"

namespace sullae {

/// Of a world: what the environment says to each layer, and what the program says instead.
struct WorldSettings {
  RendezvousSettings rendezvous;
  CollectiveSettings collective;
  engine::EngineOptions engine;
  /// Throws InputError for what cannot be.
  static WorldSettings from(const Environment& environment, const WorldOptions& options);
};

/// The connection to the rendezvous store, shared by a world and its process sets.
struct Session {
  explicit Session(const WorldOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  WorldSettings settings;
  std::unique_ptr<StoreServer> server;
  std::unique_ptr<Store> store;
  /// Of the world itself; null in a world of one, as the two above.
  std::shared_ptr<Rendezvous> rendezvous;
  /// Made once the topology is known.
  std::shared_ptr<messages::Messenger> messenger;
  /// Set where this rank is cut off from others: see AdapterView::abandon().
  std::shared_ptr<Failure> cut_off = std::make_shared<Failure>();
  std::shared_ptr<engine::SetWatch> set_watch = std::make_shared<engine::SetWatch>();
};

}  // namespace sullae

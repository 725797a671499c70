// What a world and its process sets share.
#pragma once

#include <memory>

#include "base/config.h"
#include "collective/messages/messenger.h"
#include "engine/set_watch.h"
#include "sullae/sullae.h"
#include "transport/rendezvous.h"
#include "transport/store/store.h"
#include "transport/store/store_server.h"

namespace sullae {

/// The connection to the rendezvous store, shared by a world and its process sets.
struct Session {
  explicit Session(const WorldOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Config config;
  std::unique_ptr<StoreServer> server;
  std::unique_ptr<Store> store;
  /// Of the world itself; null in a world of one, as the two above.
  std::shared_ptr<Rendezvous> rendezvous;
  /// Made once the topology is known.
  std::shared_ptr<messages::Messenger> messenger;
  std::shared_ptr<engine::SetWatch> set_watch = std::make_shared<engine::SetWatch>();
};

}  // namespace sullae

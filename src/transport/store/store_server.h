// The rendezvous store: a small key-value server through which the ranks of a world find each
// other.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/own_process.h"
#include "transport/store/address.h"

namespace sullae {

/// Serves from a thread of its own until it is destroyed. Any number of clients.
class StoreServer {
 public:
  /// Listens on `address`; port 0 takes a free one. Clients must greet with `secret`, which only
  /// the job's processes know; without one, at a unix address, they must be this user's. Throws
  /// Error where the port is in use or may not be bound.
  explicit StoreServer(const StoreAddress& address, std::string secret = {});
  /// Is told, in the server's thread, of what clients do; it must neither wait nor throw.
  struct Listener {
    std::function<void(const std::string& key, const std::string& value)> on_set;
    /// The client that set `last_key` last is gone, or cannot be reached (see kStoreLease).
    std::function<void(const std::string& last_key)> on_gone;
  };
  StoreServer(const StoreAddress& address, std::string secret, Listener listener);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// The port that it listens on; 0 for a unix address.
  int port() const;

  /// As a client's set(). Any thread.
  void set(std::string key, std::string value);
  /// Forgets all keys that start with `prefix`: clients that wait for one of them, or come to ask,
  /// are dropped, and get an Error at once in place of a timeout. Any thread.
  void give_up(std::string prefix);

  /// Waits until every client has gone, at most kDrainLimit. The rank that serves calls it before
  /// it leaves, so that slower ranks can finish their last requests.
  void drain();
  static constexpr std::chrono::seconds kDrainLimit{5};

 private:
  class Impl;
  OwnProcess process_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sullae

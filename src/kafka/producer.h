// Messages to a topic.
#pragma once

#include <memory>
#include <string_view>

#include "kafka/address.h"
#include "kafka/ends.h"

namespace sullae::kafka {

/// An idempotent producer (KIP-98): what it sends again after an error of the network is there
/// once, and in order. Used by one thread.
class Producer {
 public:
  /// Throws InputError for a topic that is not there and is not made, and Error. Where `is_to_end`,
  /// waits for brokers end with an Error.
  explicit Producer(const Address& to, IsToEnd is_to_end = {});
  /// What was not acknowledged may be lost.
  ~Producer();
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  /// The key chooses the partition. Copies both; waits while too much is on its way.
  void send(std::string_view key, std::string_view value);
  /// Returns when all in-sync replicas have all that was sent. Throws Error: something was not
  /// taken, by the end of SULLAE_KAFKA_TIMEOUT at the latest.
  void flush();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sullae::kafka

// Through messages, for process sets: their ranks know where to reach each other, and the store may
// be gone.
#pragma once

#include <memory>

#include "collective/messages/group.h"
#include "transport/rendezvous.h"

namespace sullae::messages {

class MessageRendezvous final : public Rendezvous {
 public:
  /// `failure` ends every wait once it happens.
  MessageRendezvous(std::shared_ptr<Group> group, std::shared_ptr<const Failure> failure)
      : group_(std::move(group)), failure_(std::move(failure)) {}

  void put(std::span<const int> to, std::string_view key, std::string_view value) override;
  std::string get(int from, std::string_view key) override;
  void fence(std::span<const int> ranks, std::string_view key) override;

 private:
  std::shared_ptr<Group> group_;
  std::shared_ptr<const Failure> failure_;
};

}  // namespace sullae::messages

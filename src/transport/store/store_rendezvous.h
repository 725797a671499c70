// Through the rendezvous store, for the world itself.
#pragma once

#include <chrono>

#include "transport/rendezvous.h"
#include "transport/store/store.h"

namespace sullae {

/// A get() holds the store until it is answered: who calls from several threads must be sure that
/// each can be.
class StoreRendezvous final : public Rendezvous {
 public:
  /// `store` must outlive it. `timeout` is of each call.
  StoreRendezvous(Store& store, int rank, const WaitLimit& timeout)
      : store_(store), rank_(rank), timeout_(timeout) {}

  void put(std::span<const int> to, std::string_view key, std::string_view value) override;
  std::string get(int from, std::string_view key) override;
  void fence(std::span<const int> ranks, std::string_view key) override;

 private:
  Deadline deadline() const { return Deadline(timeout_); }

  Store& store_;
  int rank_;
  WaitLimit timeout_;
};

}  // namespace sullae

// How the members of a group find each other before they have a channel.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sullae {

/// The three calls of PMIx that bootstrapping takes (put, get, fence). Ranks are those of the
/// world; a key is put once by each rank. Any thread may call. All throw TimeoutError, which names
/// its limit, or Error where the others cannot be reached any more.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  /// Makes `value` known to each rank of `to`.
  virtual void put(std::span<const int> to, std::string_view key, std::string_view value) = 0;
  /// Waits for what rank `from` put under `key`.
  virtual std::string get(int from, std::string_view key) = 0;
  /// Returns when all of `ranks`, this one among them, have called it with `key`.
  virtual void fence(std::span<const int> ranks, std::string_view key) = 0;
};

}  // namespace sullae

// What a rank tells all others in one cycle.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/autotune/settings.h"
#include "engine/negotiation/request.h"
#include "engine/set_watch.h"

namespace sullae::engine {

/// An operation that fails on every rank.
struct GivenUp {
  std::string name;
  /// Empty: it has waited for longer than the stall limit.
  std::string reason;
};

struct Announcement {
  /// Submitted since the last cycle: those that every rank has in its cache, by number, and those
  /// that it has not, whole.
  std::vector<std::uint32_t> cached;
  std::vector<Request> requests;
  /// This rank has no more data: it takes part in what the others do with zeros.
  bool joined = false;
  /// This rank leaves after this cycle.
  bool leaving = false;
  /// This rank cannot go on, for this reason: no rank can.
  std::optional<std::string> failed;
  /// Decided by rank 0 alone, since the ranks' clocks differ.
  std::vector<GivenUp> given_up;
  /// For the comparison of process sets.
  std::vector<Waiting> waiting;

  /// What the engine is to change to, on every rank in the same cycle: decided by rank 0.
  std::optional<Settings> settings;

  bool empty() const {
    return cached.empty() && requests.empty() && !joined && !leaving && !failed &&
           given_up.empty() && waiting.empty() && !settings;
  }

  /// A compact form: nothing at all for an empty one, and runs of consecutive numbers.
  std::string encode() const;
  /// Throws Error for what encode() does not write.
  static Announcement decode(std::string_view bytes);
};

}  // namespace sullae::engine

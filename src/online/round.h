// A round of online learning: what was trained, from which weights, what came of it. The record of
// a publication.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "train/fine_tune.h"

namespace sullae::online {

enum class RoundState {
  training,
  publishing,   ///< judged good; its version is being written
  published,    ///< `version` is there
  rejected,     ///< not better, or worse elsewhere: nothing has changed
  failed,       ///< could not be trained; `reason` says why
  interrupted,  ///< the process ended in the middle
};
std::string name_of(RoundState state);

struct Round {
  std::int64_t id = 0;
  RoundState state = RoundState::training;
  /// "count", "age" or "call".
  std::string trigger;
  /// The version whose weights it started from, and the one that it published (0: none).
  std::int64_t parent = 0;
  std::int64_t version = 0;
  /// Samples that changed after `since`, up to `revision`, are what it was done for.
  std::int64_t since = 0;
  std::int64_t revision = 0;
  /// The last call (RoundStore::call) that it answers.
  std::int64_t call = 0;
  /// Who changed how many of them.
  std::map<std::string, std::int64_t> authors;
  /// Milliseconds since 1970, UTC; 0: it has not ended.
  std::int64_t started = 0;
  std::int64_t ended = 0;
  std::int64_t step = 0;
  std::int64_t steps = 0;
  train::FineTuneResult result;
  /// Why nothing was published.
  std::string reason;
};

/// As clients see it, and as it is kept.
nlohmann::json json_of(const Round& round);
/// Throws nlohmann::json::exception.
Round round_from(const nlohmann::json& kept);

}  // namespace sullae::online

// What a server holds, on a disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "ps/rule.h"
#include "ps/shard.h"

namespace sullae::ps {

struct SavedMembers {
  std::set<int> living;   // workers that had come, and lived
  std::set<int> counted;  // and those that were expected
  std::uint64_t job = 0;  // whose they are
};

struct HeldState : SavedMembers {
  Rule rule;
  std::map<std::uint32_t, Shard> shards;
};

/// Replaces `file`, whole or not at all. A round that has begun is left out, so that its workers give again. Throws Error.
void save_state(const std::filesystem::path& file, const Rule& rule,
                std::map<std::uint32_t, Shard>& shards, const SavedMembers& members);

/// Nothing where there is no file. Throws CheckpointError that names the file where it is torn, or no server's, and InputError
/// where it is of servers with another bound.
std::optional<HeldState> load_state(const std::filesystem::path& file, int staleness);

}  // namespace sullae::ps

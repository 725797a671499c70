// What a server holds, on a disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "ps/server/group.h"

namespace sullae::ps {

/// What keeps others from saving in `file` as long as it is open; nothing where its file system has
/// no locks. Removes what a save that was killed has left. Throws InputError where another server
/// saves there.
UniqueFd own_state_file(const std::filesystem::path& file);

/// Replaces ServerOptions::state_file, whole or not at all. Rounds that have begun are left out, so
/// that their workers give again. `job` is whose members they are. Throws Error.
void save_state(const ServerOptions& options, std::uint64_t job,
                const std::map<std::uint64_t, std::unique_ptr<Group>>& groups);

/// Nothing where there is no file. Members of another job than `job` are none of this one's. Throws
/// CheckpointError that names the file where it is torn, or no server's, and InputError where it is
/// of servers with another bound.
std::vector<std::unique_ptr<Group>> load_state(const ServerOptions& options, std::uint64_t job,
                                               Replies replies);

}  // namespace sullae::ps

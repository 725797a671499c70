// The processes of a private cluster, which say their numbers in files of its folder.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sullae::cluster {

/// Of a daemon's file in its folder; nothing where the daemon has ended: another process may have
/// its number.
std::optional<pid_t> running_pid(const std::filesystem::path& folder,
                                 const std::filesystem::path& pid_file);
/// Those that run, by name.
std::map<std::string, pid_t> daemons_of(const std::filesystem::path& folder);
/// Asks them to end, and kills those that do not within 10 s.
void end_daemons(const std::filesystem::path& folder);
/// Of a program that returns once its daemon runs. Throws Error with what it has said.
void start_daemon(const std::vector<std::string>& words);

}  // namespace sullae::cluster

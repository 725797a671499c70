// What a container may use of its host's processors.
#pragma once

#include <filesystem>
#include <optional>

namespace sullae {

/// As many processors as this process's cgroup lets it have at a time, rounded up; none: as many as
/// there are. `cgroups` says which one it is in, and `root` is where they are (cgroups(7), version
/// 1 and 2).
std::optional<int> cpu_quota(const std::filesystem::path& cgroups = "/proc/self/cgroup",
                             const std::filesystem::path& root = "/sys/fs/cgroup");

}  // namespace sullae

// Who and where this process is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sullae {

/// The host's name, for messages.
std::string host_name();

/// Equal for two processes exactly if they can share memory and see each other's /proc: the
/// kernel's boot id with this process's network and process-id namespaces, so that containers count
/// as hosts.
std::string host_identity();

/// The processors on which this thread may run (its affinity mask).
std::vector<int> allowed_cpus();

/// How many of them it may use at a time, at least 1: a container's quota may be less than there
/// are.
int available_cpus();

/// The most memory that this process has had so far, in bytes, what it shares with others included
/// (proc(5), VmHWM); 0 where the system does not say.
std::int64_t peak_memory();

}  // namespace sullae

// Moments at which tests kill a process, to see what it leaves.
#pragma once

#include <array>
#include <string_view>

namespace sullae {

/// All that there are: the steps of replacing a file (checkpoints, notes of what is served) by one
/// process, and by several, of publishing a version, of an upload of samples, of a rendezvous.
inline constexpr std::array<std::string_view, 13> kFailpoints = {
    "file.created",     "file.written",    "file.synced",        "file.renamed",
    "part.written",     "publish.begun",   "publish.written",    "publish.renamed",
    "examples.written", "examples.stored", "rendezvous.claimed", "rendezvous.announced",
    "rendezvous.known"};

/// In builds with tests: kills this process (SIGKILL) where SULLAE_CRASH_AT is `name`, or `name:N`
/// and this is the N-th time. Else does nothing. Any thread.
void failpoint(std::string_view name);

}  // namespace sullae

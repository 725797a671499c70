// What runs on nodes: the launcher of a job, and the workers that join it.
#pragma once

#include <filesystem>

#include "cluster/settings.h"

namespace sullae::cluster {

/// The exit code of an attempt after which the job goes on in another (sysexits.h: EX_TEMPFAIL).
inline constexpr int kGoesOn = 75;
/// Where a coordinator finds which submission of the job it belongs to, where nobody has written
/// that down.
inline constexpr const char* kSubmissionVariable = "SULLAE_SUBMISSION";

/// `sullae jobs coordinate FOLDER`, as the engine starts it: runs an attempt of the job, and writes
/// how it ended. Returns the exit code. Throws Error where the attempt cannot be begun.
int coordinate(const std::filesystem::path& folder, const Settings& settings,
               const std::string& engine);

/// `sullae jobs work FOLDER`, once on each node: connects to the launcher of the job's attempt, of
/// the newest where `attempt` is 0, and starts ranks for it until it lets go. One that `stays` does
/// so for one attempt after the other, until the job is over: where the engine starts workers once.
/// Throws Error where there is none, or it refuses this worker.
int work(const std::filesystem::path& folder, int attempt, bool stays);

}  // namespace sullae::cluster

// A Slurm of the user's own on this machine, for those who have no cluster, and for tests: its
// daemons run as the user, its files are in one folder, its nodes are processes that start when
// jobs want them and stop when they are idle.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "cluster/settings.h"

namespace sullae::cluster {

struct PrivateClusterOptions {
  std::filesystem::path folder;
  int nodes = 3;
  /// That Slurm counts for each node; processors are shared in truth.
  int cpus = 2;
  /// After which an idle node stops.
  std::chrono::seconds idle{60};
};

/// Starts it, and writes its cluster.toml. Throws InputError, or Error with what its daemons have
/// said; nothing runs then.
Settings start_private_cluster(const PrivateClusterOptions& options);

/// Cancels its jobs, ends its daemons, and removes all but jobs from its folder. Throws Error where
/// something is left.
void stop_private_cluster(const Settings& settings);

/// Its daemons that run: "munged", "slurmctld", "head", "n1", ….
std::vector<std::string> running_daemons(const std::filesystem::path& folder);
/// Those of them without which it answers nobody, and that do not run.
std::vector<std::string> missing_daemons(const std::filesystem::path& folder);
/// Starts those again: alone they know what runs on the nodes. Throws Error.
void mend_private_cluster(const Settings& settings);

/// The texts of its files.
struct PrivatePorts {
  int controller = 0;
  std::vector<int> nodes;  ///< of head, n1, n2, …
};
std::string slurm_conf(const PrivateClusterOptions& options, const PrivatePorts& ports,
                       const std::string& host, const std::string& user);
std::string controller_script(const std::filesystem::path& folder);
std::string resume_script(const std::filesystem::path& folder);
std::string suspend_script(const std::filesystem::path& folder);
std::string repair_script(const std::filesystem::path& folder);

}  // namespace sullae::cluster

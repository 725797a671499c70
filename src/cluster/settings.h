// Which cluster this is, and where its jobs are kept.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sullae::cluster {

/// What cluster.toml says in the cluster's folder; `sullae cluster up` writes it for a private one,
/// a site's users or administrators for theirs. Without it, the site's Slurm with its defaults.
struct Settings {
  std::filesystem::path folder;
  bool is_configured = false;  ///< there is a cluster.toml
  /// On storage that all nodes have under this path.
  std::filesystem::path jobs;
  /// Slurm's configuration; empty: where Slurm's commands find it.
  std::string slurm_conf;
  /// Partitions; empty: the one that Slurm gives. Coordinators need little and should not be
  /// preempted.
  std::string partition, high, low, coordinator;
  /// Options of every sbatch, such as "--account=physics".
  std::vector<std::string> sbatch;
  /// Where nodes reach a coordinator; empty: by its node's name.
  std::string address;
  /// sullae cluster up has made it, and its daemons run here.
  bool is_private = false;
};

/// $SULLAE_CLUSTER, or ~/.sullae/cluster.
std::filesystem::path cluster_folder();

/// Of `folder`. Throws InputError.
Settings read_settings(const std::filesystem::path& folder);
std::string to_toml(const Settings& settings);

/// What the engine calls "high" and "low" by these settings; empty for any other priority.
std::string name_of_priority(const Settings& settings, const std::string& priority);

}  // namespace sullae::cluster

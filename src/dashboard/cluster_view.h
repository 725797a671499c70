// Jobs and nodes, as the cluster's engine last said.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cluster/engine.h"
#include "cluster/jobs.h"
#include "cluster/settings.h"

namespace sullae::dashboard {

struct ClusterState {
  std::string engine;
  std::vector<cluster::JobView> jobs;  ///< the oldest first
  std::vector<cluster::Node> nodes;
  std::string coordinator_partition;  ///< nodes of which alone have no ranks; empty: there is none
  /// Why there is nothing, or not all, of it.
  std::vector<std::string> problems;
  std::map<std::string, std::size_t> places;  ///< of jobs, by their names

  /// Null where there is none.
  const cluster::JobView* find(const std::string& id) const;
};

/// Any thread.
class ClusterView {
 public:
  /// The cluster of this process's environment; none where there is neither one of its own nor
  /// Slurm's commands.
  ClusterView();

  bool is_there() const { return engine_ != nullptr; }
  /// Of jobs; nothing where there is no cluster.
  std::optional<std::filesystem::path> jobs_folder() const;

  /// Asks the engine where its last word is older than two seconds, or than ten times as long as it
  /// took: may take as long as SULLAE_CLUSTER_TIMEOUT. Does not throw.
  std::shared_ptr<const ClusterState> now();
  /// What it said last, without asking; null where it was not asked yet.
  std::shared_ptr<const ClusterState> last() const;

 private:
  ClusterState ask();

  cluster::Settings settings_;
  std::unique_ptr<cluster::Engine> engine_;
  std::mutex asking_;
  mutable std::mutex mutex_;
  std::shared_ptr<const ClusterState> state_;
  std::chrono::steady_clock::time_point next_{};  // to ask
};

}  // namespace sullae::dashboard

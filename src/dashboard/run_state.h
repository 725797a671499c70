// How a run stands: by its own word, its lock, and the engine of its job, and by no heartbeat.
#pragma once

#include <string>

#include "dashboard/cluster_view.h"
#include "dashboard/run_index.h"

namespace sullae::dashboard {

struct RunState {
  /// "running", "completed", "failed", "stopped", "killed", "unknown"; of a job also what the
  /// engine says, "pending", "preempted".
  std::string text;
  std::string reason;  ///< for people
  bool is_over = false;
};

/// `cluster` may be null. `host` is this one's name: a lock that is not seen says nothing of a
/// process on another host.
RunState state_of(const Run& run, const ClusterState* cluster, const std::string& host);

}  // namespace sullae::dashboard

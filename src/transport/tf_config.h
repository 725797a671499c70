// What TensorFlow's clusters, and Kubernetes' TFJob, say of a process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"

namespace sullae {

/// TF_CONFIG: {"cluster": {"chief": ["host:port"], "worker": ["host:port", …], "ps": ["host:port",
/// …]}, "task": {"type": "worker", "index": 0}}. The chief is rank 0, then come the workers; an
/// evaluator is not in the cluster.
struct TfConfig {
  enum class Task { rank, parameter_server, evaluator };

  Task task = Task::rank;
  int index = 0;  ///< of its kind: the rank
  std::vector<std::string> ranks;
  std::vector<std::string> servers;
};

/// Empty where the variable is not set, and for a rank that `sullae run` has started, perhaps
/// within such a task. Throws InputError where it is not what TensorFlow documents, or names no
/// task of its cluster.
std::optional<TfConfig> tf_config(const Environment& environment);

}  // namespace sullae

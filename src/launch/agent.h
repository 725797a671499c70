// The part of `sullae run` that runs on each host: it starts the host's ranks, passes on their
// output, and sees to it that nothing of them is left.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace sullae {

/// What an agent is to start.
struct AgentSpec {
  std::vector<std::string> command;
  std::string directory;
  /// Set for every rank, on top of the agent's own environment.
  std::map<std::string, std::string> environment;
  std::vector<int> ranks;
  int size = 1;
  /// Processors that each rank gets; 0 divides the host's.
  int cpus_per_rank = 0;
  bool bind = true;

  std::string to_json() const;
  static AgentSpec from_json(const std::string& text);
};

/// Talks to the launcher through `input` and `output` until every rank has ended. When the launcher
/// is gone, or asks for it, all ranks and whatever they started are killed. Returns the process's
/// exit code.
int run_agent(int input, int output);

}  // namespace sullae

// The part of `sullae run` that runs on each host: it starts the host's ranks, passes on their
// output, and sees to it that nothing of them is left.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace sullae {

/// How long the output of a rank that has ended is still read while something holds its pipes open.
/// The end is reported then.
inline constexpr std::chrono::milliseconds kDrainLimit{1000};

/// What an agent is to start.
struct AgentSpec {
  std::vector<std::string> command;
  std::string directory;
  /// Set for every rank, on top of the agent's own environment.
  std::map<std::string, std::string> environment;
  std::vector<int> ranks;
  int size = 1;
  /// Which shares of the host's processors they get, of how many; empty numbers them, and divides
  /// the host among them.
  std::vector<int> slots;
  int host_slots = 0;
  /// Others may follow: the agent ends when the launcher lets it go, and not with its ranks.
  bool more_to_come = false;
  /// What cannot be started ends with 127, and others go on; else the agent has failed.
  bool may_fail = false;
  /// Processors that each rank gets; 0 divides the host's.
  int cpus_per_rank = 0;
  bool bind = true;

  std::string to_json() const;
  static AgentSpec from_json(const std::string& text);
};

struct AgentEnd {
  int exit_code = 0;             ///< the process's
  bool was_asked_to_go = false;  ///< by a signal to itself
};

/// Talks to the launcher through `input` and `output` until every rank has ended; each `start`
/// starts more of them. When the launcher is gone, or asks for it, all ranks and whatever they
/// started are killed.
AgentEnd run_agent(int input, int output);

}  // namespace sullae

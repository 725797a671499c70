// Programs of other people's, and what they answer.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/fd.h"

namespace sullae::cluster {

struct CommandResult {
  int exit_code = 0;  ///< 128 + the signal of what was killed
  std::string output;
  std::string errors;
};

inline constexpr const char* kCommandTimeout = "SULLAE_CLUSTER_TIMEOUT";
/// What that says, or 30 seconds. Throws InputError.
std::chrono::milliseconds command_timeout();

struct Command {
  std::vector<std::string> words;
  std::string input = {};
  std::chrono::milliseconds timeout = command_timeout();
  const char* timeout_setting = kCommandTimeout;  ///< what messages call it
  int inherited_fd = -1;  ///< that the child has open, and does not know of; -1: none
};

/// Runs a command to its end, and gives what it has written. Any thread. Throws TimeoutError, after
/// which the child has been killed, and Error where it cannot be run.
CommandResult run_command(const Command& command);

/// True where the shell would find it.
bool is_installed(const std::string& program);

}  // namespace sullae::cluster

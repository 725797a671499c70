// Programs of other people's that are asked something.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/fd.h"

namespace sullae::cluster {

struct Answer {
  int exit_code = 0;  ///< 128 + the signal of what was killed; 127 where there is no such program
  std::string output;
  std::string errors;
};

/// Runs `words` to their end, with `input`, and gives what they have written. `limit` is what the messages call
/// `setting`. The child has `kept`, if that is a file descriptor, open, and does not know of it. Any thread. Throws
/// TimeoutError, after which the child has been killed, and Error.
struct Question {
  std::vector<std::string> words;
  std::string input = {};
  std::chrono::milliseconds limit{std::chrono::seconds{30}};
  const char* setting = "SULLAE_CLUSTER_TIMEOUT";
  int kept = -1;
};
Answer ask(const Question& question);

/// True where the shell would find it.
bool is_installed(const std::string& program);

}  // namespace sullae::cluster

// The commands that need libtorch are a program of their own, sullae-torch: to load that library takes longer than all
// that `sullae run` does, and each host's agent would pay for it again.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace sullae::cli {

struct OtherCommand {
  const char* name;
  const char* description;
};

inline constexpr std::array<OtherCommand, 6> kTorchCommands = {{
    {"train", "Train a ready model; alone, or as a rank of `sullae run`"},
    {"scaling",
     "Train a model with more and more workers, as replicas in one process (scale-up) and as "
     "processes (scale-out), and compare time, accuracy and efficiency"},
    {"serve", "Serve the models of a repository over HTTP and gRPC; new versions without a pause"},
    {"online",
     "Train served models further on the samples that operators correct, and publish what is "
     "better;\nalone, or as a rank of `sullae run`"},
    {"data", "Convert, divide, show and check data sets; alone, or as the ranks of `sullae run`"},
    {"report",
     "Compare training runs: a table of the reports that "
     "`sullae train --report` wrote, each against the first"},
}};

/// What --help says of a command of kTorchCommands.
constexpr const char* description_of(std::string_view name) {
  for (const auto& command : kTorchCommands) {
    if (command.name == name) return command.description;
  }
  return "";
}

/// Becomes sullae-torch where `words` begin with one of its commands; returns where they do not. Throws Error where
/// that program is not there.
void become_other_program(const std::vector<std::string>& words);

}  // namespace sullae::cli

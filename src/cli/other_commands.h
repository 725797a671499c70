// The commands that need libtorch are programs of their own: to load that library takes longer than
// all that `sullae run` does, and each host's agent would pay for it again. sullae-train trains,
// sullae-serve has the server, which whoever trains need not build.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace sullae::cli {

struct OtherCommand {
  const char* name;
  const char* program;
  const char* description;
  /// Has the host for itself where no launcher started it.
  bool takes_all_cores = false;
};

inline constexpr std::array<OtherCommand, 8> kOtherCommands = {{
    {"train", "sullae-train", "Train a ready model; alone, or as a rank of `sullae run`", true},
    {"scaling", "sullae-train",
     "Train a model with more and more workers, as replicas in one process (scale-up) and as "
     "processes (scale-out), and compare time, accuracy and efficiency"},
    {"generate", "sullae-train", "Write with a language model that `sullae train gpt` trained",
     true},
    {"serve", "sullae-serve",
     "Serve the models of a repository over HTTP and gRPC; new versions without a pause"},
    {"online", "sullae-serve",
     "Train served models further on the samples that operators correct, and publish what is "
     "better;\nalone, or as a rank of `sullae run`"},
    {"predict", "sullae-serve",
     "Predict a data set with a trained model, into part files, or a topic's messages into "
     "another; "
     "alone, or as the ranks of `sullae run`"},
    {"data", "sullae-train",
     "Convert, divide, show and check data sets; alone, or as the ranks of `sullae run`"},
    {"report", "sullae-train",
     "Compare training runs: a table of the reports that "
     "`sullae train --report` wrote, each against the first"},
}};

/// What --help says of a command of kOtherCommands.
constexpr const char* description_of(std::string_view name) {
  for (const auto& command : kOtherCommands) {
    if (command.name == name) return command.description;
  }
  return "";
}

/// Becomes the program that has the command which `words` begin with; returns where that is this
/// one. Throws Error where that program is not there.
void become_other_program(const std::vector<std::string>& words);

}  // namespace sullae::cli

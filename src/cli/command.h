// A command of the `sullae` program.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "sullae/error.h"

namespace sullae::cli {

/// A new one is a file and a line in commands.cc, or in train_commands.cc or serve_commands.cc and
/// in other_commands.h where it needs libtorch.
class Command {
 public:
  virtual ~Command() = default;
  /// Adds the command to the program and returns it.
  virtual CLI::App* declare(CLI::App& program) = 0;
  /// Called when the command was given, with its options parsed. Returns the exit code.
  virtual int run() = 0;
};

/// Thrown by run() for what no option is: exit code 2, as for what is not understood before. `what`
/// names the command.
struct UsageError : InputError {
  using InputError::InputError;
};

/// Those of this program: of sullae, sullae-train or sullae-serve.
std::vector<std::unique_ptr<Command>> make_commands();
/// Becomes the program that `words` are for; returns where that is this one. Throws Error.
void hand_over(const std::vector<std::string>& words);

}  // namespace sullae::cli

// A command of the `sullae` program.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <vector>

namespace sullae::cli {

/// A new one is a file and a line in commands.cc.
class Command {
 public:
  virtual ~Command() = default;
  /// Adds the command to the program and returns it.
  virtual CLI::App* declare(CLI::App& program) = 0;
  /// Called when the command was given, with its options parsed. Returns the exit code.
  virtual int run() = 0;
};

std::vector<std::unique_ptr<Command>> make_commands();

}  // namespace sullae::cli

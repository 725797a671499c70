// Runs programs as a user would, and looks for what they left behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace sullae::testing {

struct ProgramResult {
  /// The exit code, or 128 + the signal that killed it.
  int exit_code = 0;
  std::string standard_output;
  std::string standard_error;
};

/// A program on its way.
class Program {
 public:
  /// `words[0]` is looked for in PATH. Variables are added to the environment; an empty value
  /// removes one.
  explicit Program(const std::vector<std::string>& words,
                   const std::map<std::string, std::string>& environment = {},
                   const std::string& directory = {});
  /// Kills it if it still runs.
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  /// What it has written to its standard output so far, as far as it was waited for.
  const std::string& output() const { return result_.standard_output; }
  void signal(int signal) const;
  /// Waits until the output contains `text`; false when the program ended, or `limit` passed,
  /// without it.
  bool wait_for_output(const std::string& text,
                       std::chrono::seconds limit = std::chrono::seconds{60});
  /// The same, of output that comes from now on.
  bool wait_for_more_output(const std::string& text,
                            std::chrono::seconds limit = std::chrono::seconds{60});
  /// Waits for the end; a program that takes longer than `limit` is killed and fails the test.
  ProgramResult wait(std::chrono::seconds limit = std::chrono::seconds{120});

 private:
  bool collect(std::chrono::milliseconds most);
  bool wait_for_output_behind(std::size_t begin, const std::string& text,
                              std::chrono::seconds limit);

  pid_t pid_ = -1;
  int output_ = -1;
  int error_ = -1;
  ProgramResult result_;
};

/// Runs a program to its end.
ProgramResult run_program(const std::vector<std::string>& words,
                          const std::map<std::string, std::string>& environment = {},
                          const std::string& directory = {});

/// The `sullae` program of this build.
std::string sullae_program();

/// Processes whose command line contains `mark`.
std::vector<pid_t> processes_with(const std::string& mark);
/// Waits until there are none; false after ten seconds.
bool vanish(const std::string& mark);

/// A word that no other process's command line has.
std::string unique_mark();

}  // namespace sullae::testing

// A step's processes.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sullae::pipeline {

/// The variable by which a step's processes are known, whoever their parents are.
inline constexpr const char* kMark = "SULLAE_PIPELINE_STEP";

/// A process group with all that it has started. Ends with this process. Used by one thread.
class StepProcess {
 public:
  struct Options {
    std::vector<std::string> words;
    std::filesystem::path folder;
    /// What it writes goes behind what is there.
    std::filesystem::path log;
    std::map<std::string, std::string> environment;
    /// Of this step of this run alone; empty: what it starts elsewhere goes on without it.
    std::string mark;
  };
  /// Throws Error.
  explicit StepProcess(const Options& options);
  /// Kills what is left.
  ~StepProcess();
  StepProcess(StepProcess&& other) noexcept;
  StepProcess& operator=(StepProcess&&) = delete;

  /// Its exit code, or 128 and the signal, when it has ended. Not to be asked again then.
  std::optional<int> ended();
  /// Asks those that have not ended to end, all together; what does not within ten seconds is
  /// killed.
  static void stop(std::vector<StepProcess*> processes);

 private:
  pid_t pid_ = -1;
  std::string mark_;
};

/// Kills processes with this mark, if it is one: of a run before, which was killed itself.
void kill_marked(const std::string& mark);

}  // namespace sullae::pipeline

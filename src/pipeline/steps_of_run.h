// What steps are in a run: with its scheduled time put in.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "pipeline/contents.h"
#include "pipeline/definition.h"
#include "pipeline/state.h"

namespace sullae::pipeline {

/// Used by one thread.
class StepsOfRun {
 public:
  /// All outlive this object.
  StepsOfRun(const Pipeline& pipeline, const State& state, Time scheduled, Contents& contents)
      : pipeline_(pipeline), state_(state), scheduled_(scheduled), contents_(contents) {}

  std::string command(const Step& step) const;
  /// The variables that the file gives it.
  std::map<std::string, std::string> settings(const Step& step) const;
  /// And those that say which run it is.
  std::map<std::string, std::string> environment(const Step& step) const;
  /// What is in `paths`, by path. `missing` becomes the first that is not there, if any. Throws
  /// Error.
  std::map<std::string, std::string> contents(const std::vector<std::string>& paths,
                                              std::string& missing);
  /// By which a job of it is known: another one of another command, other variables, other
  /// `inputs`.
  std::string key(const Step& step, int attempts,
                  const std::map<std::string, std::string>& inputs) const;
  /// What its job's name begins with.
  std::string job_name(const Step& step) const;
  /// The job that it waits for, by the last line of its `log` in which `sullae jobs submit` has
  /// named it, if any. Returns why it could not be cancelled, or nothing.
  std::string cancel_job(const Step& step, const std::filesystem::path& log,
                         const std::filesystem::path& program) const;
  /// By which its processes are known.
  std::string mark(Time scheduled, const std::string& step) const;

 private:
  const Pipeline& pipeline_;
  const State& state_;
  Time scheduled_;
  Contents& contents_;
};

/// Its last five lines, of its last two thousand bytes; each on a line of its own, indented.
std::string last_lines_of(const std::filesystem::path& file, std::uintmax_t from = 0);

}  // namespace sullae::pipeline

// The record of a training run: what it is, its curves, and how it ended, in a folder that `sullae
// dashboard` shows. For loops of one's own; `sullae train` and sullae::train::fit() keep one where
// --run-dir says.
//
//   run.json        what the run is, the last value of each curve, how it ended
//   metrics.jsonl   a line for each moment: {"time": 1764150000.123, "step": 100, "train/loss": 0.31}
//
// Both are plain JSON, for any program. A line is written at once and as a whole: what scalars()
// has returned from is kept when the process is killed in the next moment. While it is open the
// process has a lock on metrics.jsonl, by which others know that it lives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

namespace sullae {

struct RunDescription {
  /// By default the folder's.
  std::string name = {};
  /// What distinguishes it from other runs: the dashboard compares them.
  std::map<std::string, std::string> settings = {};
  int ranks = 1;
};

/// For one process of a run, rank 0 usually. Used by one thread.
class RunLog {
 public:
  /// What becomes of a run that is in the folder already.
  enum class Earlier {
    refused,  ///< InputError, but for one of this process's own job, which `sullae run` has started
              ///< again
    continued,   ///< this one goes on with it
    taken_over,  ///< the same, without waiting for the process that had it
  };

  /// Makes the folder. Throws InputError where there is a run that is not to be continued, or that
  /// another process is writing (after waiting SULLAE_RUN_LOCK_TIMEOUT, 10 seconds by default, for
  /// one that may be about to end), or other files by these names; and Error where it cannot be
  /// written. On a file system without locks a warning says that nobody sees whether the run lives.
  RunLog(std::filesystem::path folder, const RunDescription& description,
         Earlier earlier = Earlier::refused);
  /// A run that has neither completed nor failed has failed where an exception is on its way, and
  /// else was stopped. In a fork of the process nothing ends.
  ~RunLog();
  RunLog(RunLog&&) noexcept;
  RunLog& operator=(RunLog&&) noexcept;

  /// A moment: values by tag, "train/loss" (tags with the same beginning are shown together), at
  /// `step`, which counts from the beginning of the training, for all tags, and never goes back.
  /// Throws Error where the line cannot be written whole; what there is of it is taken back.
  void scalars(std::int64_t step, const std::map<std::string, double>& values);
  /// The run goes on after this step, of a checkpoint: what was written of later ones is forgotten.
  /// Where it is not called, a run that is continued goes on before its first moment.
  void goes_on_after(std::int64_t step);
  /// So many steps are to be done, in all.
  void expect_steps(std::int64_t steps);
  /// A line of text: where the run resumes, what was exported.
  void note(const std::string& text);
  /// What is known meanwhile.
  void describe(const RunDescription& description);

  void completed();
  void failed(const std::string& why);
  /// Before its end, because somebody has asked for it.
  void stopped(const std::string& why);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sullae

// What is kept of a pipeline, beside its file:
//
//   .sullae/pipelines/NAME/
//     runs/2026-11-23T170000Z/run.json         of each run, by its time (UTC): its steps, times, how it ended
//     runs/…/prepare.log                       what a step has written
//     steps/prepare.json                       what was done, of which contents: not done again
//     contents.json                            hashes of files
//     id                                       of this folder: jobs of one that was removed are none of its
//     lock                                     held by whoever runs it; says who
//     waiting/                                 a file for each run that waits for it
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "pipeline/definition.h"
#include "pipeline/record.h"

namespace sullae::pipeline {

/// A step that was done.
struct Done {
  std::string command;
  std::map<std::string, std::string> environment;
  Time scheduled = 0;
  std::map<std::string, std::string> inputs;  ///< contents by path
  std::map<std::string, std::string> outputs;
};

/// Any process; only who holds the lock writes. What is looked at is not made.
class State {
 public:
  explicit State(const Pipeline& pipeline);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path run_folder(Time scheduled) const;
  std::filesystem::path log(Time scheduled, const std::string& step) const;
  std::filesystem::path contents() const { return folder_ / "contents.json"; }
  /// Made when it is first asked for.
  std::string id() const;

  /// Nothing where there is none, or a damaged one.
  std::optional<RunRecord> run(Time scheduled) const;
  void save(const RunRecord& run) const;
  /// The newest first, at most `most`.
  std::vector<RunRecord> runs(std::size_t most) const;

  std::vector<Done> done(const std::string& step) const;
  void add(const std::string& step, const Done& done) const;

  struct Holder {
    std::string host;
    int pid = 0;
    Time scheduled = 0;
  };
  /// Who holds the lock; nothing where nobody does.
  std::optional<Holder> holder() const;
  /// It is said to run, and nobody runs it.
  bool is_killed(const RunRecord& run) const;
  /// A step of that run was running then: for how long is not known.
  bool is_killed(const RunRecord& run, const StepRecord& step) const;
  /// "running, late", "done": what a run is now. "running" of one that was killed is what nobody
  /// would see otherwise.
  std::string describe(const RunRecord& run) const;
  std::string describe(const RunRecord& run, const StepRecord& step) const;
  /// Asks whoever holds the lock, on whatever host, to end; and whether it is asked to.
  void ask_to_end() const;
  bool is_asked_to_end() const;
  /// Nothing where another has it. Whoever was asked to end has, then.
  std::optional<UniqueFd> try_lock(Time scheduled) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace sullae::pipeline

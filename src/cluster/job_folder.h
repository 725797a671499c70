// A job's folder on shared storage: all that is known of it, besides what the engine says.
//
//   job.toml                what was submitted
//   submission.json         {"number", "time", "first_attempt", "engine_name"} of the last submission to the engine
//   size.json               {"min_nodes", "max_nodes"}, where `sullae jobs resize` has changed them
//   cancelled               there where `sullae jobs cancel` was asked
//   attempts/N/log          what the ranks and the launcher have written, ranks tagged
//   attempts/N/coordinator.json    where workers find the launcher
//   attempts/N/workers.jsonl       a line for each process: its number, its node
//   attempts/N/ended.json   how the attempt ended
//   attempts/N/room         space for it and result.json, until then
//   result.json             how the job ended; of the last submission
//   checkpoints/, report.json, run/    of `sullae train`
//   slurm-*.log             what the batch scripts have written: empty, where all is well
//
// The folder is for its owner's eyes: it has the job's variables, and the secret of its launcher.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "cluster/job.h"

namespace sullae::cluster {

struct SubmissionRecord {
  int number = 0;         ///< 0: nobody has submitted it yet
  std::int64_t time = 0;  ///< seconds since 1970
  int first_attempt = 1;  ///< of those that belong to it
  /// What an engine calls it that nobody submits to but through its own tools.
  std::string engine_name = {};
};

struct Size {
  int min_nodes = 1;
  int max_nodes = 1;
  bool operator==(const Size&) const = default;
};

/// How a job, or an attempt, ended.
enum class End {
  completed,
  failed,
  cancelled,
  preempted,
  timed_out,
  node_lost,
  past_deadline,
};
/// Begins again where it may: what ended it was not its own doing.
inline bool is_of_engine(End end) {
  return end == End::preempted || end == End::timed_out || end == End::node_lost;
}
std::string to_text(End end);

struct Result {
  End end = End::completed;
  int exit_code = 0;
  std::string reason;  ///< for people; empty for completed
  int submission = 1;
  int attempts = 1;
  std::int64_t started = 0;  ///< seconds since 1970
  std::int64_t ended = 0;
};

/// One job's. Functions that write throw Error where they cannot; those that read give nothing for
/// what is not there, and throw InputError for what cannot be read. Any process; see lock() for two
/// at a time.
class JobFolder {
 public:
  explicit JobFolder(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::string id() const { return path_.filename().string(); }

  Job job() const;
  SubmissionRecord submission() const;
  void set_submission(const SubmissionRecord& record) const;
  /// As the job was submitted, or as it was resized.
  Size size(const Job& job) const;
  void set_size(const Size& size) const;
  bool is_cancelled() const;
  void set_cancelled(bool cancelled) const;

  /// The highest number, 0 for none.
  int attempts() const;
  /// Makes the next, with the space that its end takes.
  int begin_attempt() const;
  std::filesystem::path attempt(int number) const {
    return path_ / "attempts" / std::to_string(number);
  }
  /// Of `sullae train`, where its command does not say another.
  std::filesystem::path run() const { return path_ / "run"; }
  void end_attempt(int number, const Result& result) const;
  std::optional<Result> attempt_result(int number) const;
  /// Of the last submission.
  std::optional<Result> result(int submission) const;
  void set_result(const Result& result) const;

  /// Until the file is closed, by this process and those that were given it, no other has it.
  /// Throws TimeoutError.
  UniqueFd lock() const;

 private:
  std::filesystem::path path_;
};

/// All jobs of a cluster's folder. Any process.
class JobFolders {
 public:
  explicit JobFolders(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }
  struct Made {
    JobFolder folder;
    bool is_new = true;  ///< false: a job with this idempotency key is there
  };
  /// Makes one, whole or not at all: "name-7", a number that none has had. Throws InputError where
  /// the job with the same key is another one, and Error where the storage is missing or full.
  Made make(const Job& job) const;
  /// By its name or its number, "mnist-7" or "7". Throws InputError.
  JobFolder find(const std::string& id) const;
  /// The oldest first.
  std::vector<JobFolder> all() const;

 private:
  std::int64_t last_number() const;

  std::filesystem::path root_;
};

}  // namespace sullae::cluster

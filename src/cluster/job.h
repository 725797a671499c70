// What a job on a cluster is: what is to run, on how much, until when.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sullae::cluster {

/// Kept in the job's folder as job.toml, with the names of `sullae jobs submit`'s flags.
struct Job {
  std::vector<std::string> command;
  /// Letters, digits, '-', '_' and '.'.
  std::string name;
  /// Where the command runs.
  std::string directory;
  /// Variables for every rank.
  std::map<std::string, std::string> environment = {};
  /// Equal: a world of fixed size. Otherwise the job is elastic: it starts with the least, takes
  /// more as they can be had, and goes on with those that are left.
  int min_nodes = 1;
  int max_nodes = 1;
  int ranks_per_node = 1;
  int cpus_per_rank = 1;
  /// "high", "low", or the engine's number; empty: what the engine does by itself.
  std::string priority = {};
  /// How long an attempt may take.
  std::optional<std::chrono::seconds> time = {};
  /// When it may begin, and when it must have ended, as people write it: see parse_time().
  std::string begin = {};
  std::string deadline = {};
  /// The job that must have ended well before.
  std::string after = {};
  /// Folders that must be there on every node. "{name}" in the command becomes the path.
  std::map<std::string, std::string> mounts = {};
  /// Submitting with the same key again is the same submit.
  std::string idempotency_key = {};
  /// How often the job begins at most, the first time included, when it was preempted, lost its
  /// node or ran out of time.
  int attempts = 10;
  /// More options of the engine's own.
  std::vector<std::string> engine_options = {};

  bool is_elastic() const { return max_nodes > min_nodes; }
  bool operator==(const Job&) const = default;
};

/// Throws InputError that says which field is wrong, and what was expected.
void check(const Job& job);

std::string to_toml(const Job& job);
/// Of `file`; throws InputError with file and line. What the file does not say stays as it is in
/// `defaults`.
Job read_job(const std::filesystem::path& file, Job defaults = {});

/// "90" (minutes), "90m", "2h", "30s", "1:30:00", "1-12:00:00" (days). Throws InputError that
/// begins with `what`.
std::chrono::seconds parse_time_limit(std::string_view text, std::string_view what);
/// As Slurm and people read it: "1-02:03:04", "02:03:04".
std::string format_time_limit(std::chrono::seconds limit);

/// The words that ranks run in attempt number `attempt`: mounts are put in, and `sullae train`
/// keeps its checkpoints and its report in `folder`, and goes on after the newest checkpoint of an
/// attempt before, unless the command says otherwise.
std::vector<std::string> command_of_attempt(const Job& job, const std::filesystem::path& folder,
                                            int attempt);

}  // namespace sullae::cluster

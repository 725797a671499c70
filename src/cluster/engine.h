// What starts jobs on nodes: the seam behind which it is Slurm, or Kubernetes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/job.h"
#include "cluster/settings.h"

namespace sullae::cluster {

/// What an engine's job is of ours.
enum class Role {
  coordinator,  ///< runs the launcher; of a job of fixed size, the ranks too
  workers,      ///< nodes of an elastic job, which join it
};

/// What an engine's job carries so that it is found again, whoever has asked for it and been killed
/// before the answer.
struct Mark {
  std::string jobs;    ///< which folder of jobs; see mark_of()
  std::string id;      ///< of our job
  int submission = 1;  ///< which of its submissions: `sullae jobs retry` makes another
  Role role = Role::coordinator;

  /// "sullae:5fd1a3b2:mnist-7:1:workers".
  std::string to_text() const;
  static std::optional<Mark> parse(std::string_view text);
};
/// Eight letters for a folder of jobs.
std::string mark_of(const std::filesystem::path& jobs);

struct Submission {
  Mark mark;
  Job job;
  std::filesystem::path folder;  ///< the job's
  int nodes = 1;                 ///< of workers
  int attempt = 0;               ///< of workers
  std::string after;             ///< the engine's job that must have ended well
  /// A file descriptor that the engine's command holds open, so that its lock outlives a client
  /// that is killed; -1 for none.
  int inherited_fd = -1;
};

enum class EngineState {
  pending,
  running,
  ended,  ///< with exit code 0
  failed,
  cancelled,
  preempted,
  timed_out,
  out_of_memory,
  node_lost,
  past_deadline,
};

/// Ends a sentence: "was preempted by a job of higher priority", "lost its node".
std::string to_text(EngineState state);

/// A job of the engine's.
struct EngineJob {
  std::string id;
  Mark mark;
  EngineState state = EngineState::pending;
  std::string reason;  ///< in the engine's words: why it waits
  int nodes = 0;
  std::vector<std::string> hosts;
  std::int64_t submitted = 0;  ///< seconds since 1970, as the next
  std::int64_t started = 0;
  std::optional<std::chrono::seconds> time_left;
};
inline bool is_live(const EngineJob& job) {
  return job.state == EngineState::pending || job.state == EngineState::running;
}

struct Node {
  std::string name;
  std::map<std::string, bool>
      partitions;  ///< by name: whether it is the one of jobs that name none
  std::string state;
  int cpus = 0;
  int idle_cpus = 0;
  std::int64_t memory_mb = 0;
  std::string reason;
};

/// Any thread may call any function; each asks the engine, and throws Error, or TimeoutError, where
/// it does not answer.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string name() const = 0;
  /// Whether a job's processors are its own, so that ranks may be bound to them.
  virtual bool gives_own_cpus() const { return true; }
  /// What submit() would hand to it.
  virtual std::string describe(const Submission& submission) const = 0;
  /// Gives the engine's id. Throws InputError where the engine would never start it.
  virtual std::string submit(const Submission& submission) = 0;
  /// All jobs of the folder of jobs that `jobs` marks, with one question; `id` for those of one job
  /// of ours.
  virtual std::vector<EngineJob> jobs(const std::string& jobs, const std::string& id = {}) = 0;
  /// Those of the job that has this folder.
  std::vector<EngineJob> jobs_of(const std::filesystem::path& folder) {
    return jobs(mark_of(folder.parent_path()), folder.filename().string());
  }
  /// False: an attempt's time limit is its coordinator's business.
  virtual bool knows_times() const { return true; }
  /// False: workers come by themselves.
  virtual bool asks_for_workers() const { return true; }
  virtual void cancel(const std::vector<std::string>& ids) = 0;
  /// The engine's job that this process is in. Throws InputError where it is in none.
  virtual std::string this_job() const = 0;
  /// Takes out of this process's environment what the engine has said about that job, and is not
  /// for those submitted from it. While no other thread runs.
  virtual void forget_this_job() {}
  /// Whether the engine would ever start it, when all else is idle. Throws InputError where not.
  virtual void check(const Submission& submission) = 0;
  /// Whether another job was to have this one's nodes before it had begun, which an engine may
  /// forget when it begins.
  virtual bool was_to_go(const std::string& id) {
    static_cast<void>(id);
    return false;
  }
  /// Puts a running job back into the queue, from within.
  virtual void requeue(const std::string& id) = 0;
  virtual std::vector<Node> nodes() = 0;
};

/// Those there are: "slurm", "kubernetes".
std::vector<std::string> engine_names();
/// Throws InputError for a name that is none.
std::unique_ptr<Engine> make_engine(const std::string& name, const Settings& settings);

}  // namespace sullae::cluster

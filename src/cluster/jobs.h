// What users do with jobs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cluster/engine.h"
#include "cluster/job_folder.h"
#include "cluster/job_view.h"
#include "cluster/settings.h"

namespace sullae::cluster {

/// What there is in the folder of jobs.
struct JobList {
  std::vector<JobView> jobs;          ///< the oldest first
  std::vector<std::string> problems;  ///< with folders that are no jobs
};

/// Any process may do any of it at the same time. All functions throw InputError for what cannot be
/// done, and Error where storage or engine do not answer; nothing is half-submitted then.
class Jobs {
 public:
  Jobs(const Settings& settings, Engine& engine) : folders_(settings.jobs), engine_(engine) {}

  struct Submitted {
    JobFolder folder;
    bool is_new = true;
  };
  /// With an idempotency key, as often as one likes: also after a client that was killed in
  /// between.
  Submitted submit(const Job& job);
  /// What submit() would hand to the engine.
  std::string describe(const Job& job);
  /// Ends it, or keeps it from beginning.
  void cancel(const JobFolder& folder);
  /// Cancels all that were submitted, waits until they are over, and leaves a result in their
  /// folders: for an engine that ends, and forgets them. Returns what is wrong with folders that
  /// are no jobs. Throws TimeoutError after 45 seconds.
  std::vector<std::string> end_all();
  /// Submits one that is over again; it goes on from its checkpoint.
  void retry(const JobFolder& folder);
  /// Of an elastic job.
  void resize(const JobFolder& folder, const Size& size);

  JobFolder find(const std::string& id) const { return folders_.find(id); }
  JobView view(const JobFolder& folder);
  /// Keeps in the job's folder what the engine alone knows of its end, and forgets in time: that it
  /// was cancelled by the engine's own command, or could not end by its deadline. Of any other view
  /// nothing.
  void keep_end(const JobView& view) const;
  /// All of them, with at most one question to the engine.
  JobList list();
  /// Those that have a result, for which the engine is not asked.
  JobList over();

 private:
  Submission submission_of(const Job& job, const JobFolder& folder, int number);
  std::vector<EngineJob> engine_jobs(const std::string& id = {});
  using JobsById = std::map<std::string, std::vector<EngineJob>>;
  JobsById engine_jobs_by_id();
  JobList list(const JobsById& of_job);
  void submit_to_engine(const JobFolder& folder, const Job& job, int number, int lock);
  std::string engine_job_before(const Job& job);
  static void check_mounts(const Job& job);
  static void check_deadline(const Job& job);

  JobFolders folders_;
  Engine& engine_;
};

}  // namespace sullae::cluster

// What users do with jobs.
#pragma once

#include <string>
#include <vector>

#include "cluster/engine.h"
#include "cluster/job_folder.h"
#include "cluster/job_view.h"
#include "cluster/settings.h"

namespace sullae::cluster {

/// Any process may do any of it at the same time. All functions throw InputError for what cannot be done, and Error where storage or
/// engine do not answer; nothing is half-submitted then.
class Jobs {
 public:
  Jobs(const Settings& settings, Engine& engine) : folders_(settings.jobs), engine_(engine) {}

  struct Submitted {
    JobFolder folder;
    bool is_new = true;
  };
  /// With an idempotency key, as often as one likes: also after a client that was killed in between.
  Submitted submit(const Job& job);
  /// What submit() would hand to the engine.
  std::string describe(const Job& job);
  /// Ends it, or keeps it from beginning.
  void cancel(const JobFolder& folder);
  /// Submits one that is over again; it goes on from its checkpoint.
  void retry(const JobFolder& folder);
  /// Of an elastic job.
  void resize(const JobFolder& folder, const Size& size);

  JobFolder find(const std::string& id) const { return folders_.find(id); }
  JobView view(const JobFolder& folder);
  /// Of all, the oldest first, with at most one question to the engine. What is wrong with folders that are no jobs is in `unreadable`.
  std::vector<JobView> views(std::vector<std::string>& unreadable);

 private:
  Submission submission_of(const Job& job, const JobFolder& folder, int number);
  std::vector<EngineJob> engine_jobs(const std::string& id = {});
  void submit_to_engine(const JobFolder& folder, const Job& job, int number, int lock);
  std::string engine_job_before(const Job& job);
  static void check_mounts(const Job& job);
  static void check_deadline(const Job& job);

  JobFolders folders_;
  Engine& engine_;
};

}  // namespace sullae::cluster

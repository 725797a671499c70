// What users see of a job: its folder and the engine's word together. Pure, so that every case can
// be tried.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/engine.h"
#include "cluster/job_folder.h"

namespace sullae::cluster {

enum class JobState {
  unsubmitted,  ///< whoever submitted it was killed, or refused
  pending,
  running,
  completed,
  failed,
  cancelled,
  preempted,
  timed_out,
  out_of_memory,
  node_lost,
  past_deadline,
  vanished,  ///< the engine does not know it any more, and it has left no result
};
std::string to_text(JobState state);
bool is_over(JobState state);
/// How a job ended that is in that state; failed where there is no other word.
End end_of(JobState state);

/// What a job's folder says.
struct JobFacts {
  std::string id;
  Job job;
  Size size;
  SubmissionRecord submission;
  std::optional<Result> result;  ///< of this submission
  bool cancelled = false;
  int attempts = 0;
  std::optional<Result> last_attempt;
};
JobFacts read_facts(const JobFolder& folder);

struct JobView {
  JobFacts facts;
  JobState state = JobState::unsubmitted;
  std::string reason;     ///< why it is in that state, for people
  std::string engine_id;  ///< of its coordinator
  int nodes = 0;          ///< that it has
  std::vector<std::string> hosts;
  std::int64_t submitted = 0;  ///< seconds since 1970, as the next two; 0 for not yet
  std::int64_t started = 0;
  std::int64_t ended = 0;
  int exit_code = 0;
};

/// `jobs`: the engine's, of any jobs.
JobView view_of(JobFacts facts, std::span<const EngineJob> jobs);

}  // namespace sullae::cluster

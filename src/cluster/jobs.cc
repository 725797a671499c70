#include "cluster/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "base/local_time.h"
#include "sullae/error.h"

namespace sullae::cluster {
namespace {

// The coordinator lets workers that run go.
std::vector<std::string> to_cancel(const JobView& view, std::span<const EngineJob> jobs) {
  std::vector<std::string> ids;
  for (const EngineJob& job : jobs) {
    const bool is_let_go = job.mark.role == Role::workers && job.state == EngineState::running &&
                           view.state == JobState::running;
    if (is_live(job) && !is_let_go) ids.push_back(job.id);
  }
  return ids;
}

// Of one that has left none itself.
Result result_of(const JobView& view, std::int64_t ended) {
  return {.end = end_of(view.state),
          .exit_code = view.exit_code,
          .reason = view.reason,
          .submission = view.facts.submission.number,
          .attempts = view.facts.attempts,
          .started = view.started,
          .ended = ended};
}

// Whoever looks at a folder that cannot be read hears why.
bool has_result(const JobFolder& folder) {
  try {
    return folder.result(folder.submission().number).has_value();
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace

std::vector<EngineJob> Jobs::engine_jobs(const std::string& id) {
  return engine_.jobs(mark_of(folders_.root()), id);
}

Submission Jobs::submission_of(const Job& job, const JobFolder& folder, int number) {
  return {.mark = {.jobs = mark_of(folders_.root()), .id = folder.id(), .submission = number},
          .job = job,
          .folder = folder.path()};
}

// Empty where there is none, or it has ended well.
std::string Jobs::engine_job_before(const Job& job) {
  if (job.after.empty()) return {};
  const std::string& id = job.after;
  const JobView before = view(folders_.find(id));
  if (before.state == JobState::completed) return {};
  if (is_over(before.state) || before.engine_id.empty()) {
    throw InputError(fmt::format("--after {}: that job is {}, and this one would never begin", id,
                                 to_text(before.state)));
  }
  return before.engine_id;
}

void Jobs::check_deadline(const Job& job) {
  if (job.deadline.empty() || parse_time(job.deadline, "--deadline") > std::time(nullptr)) return;
  throw InputError(fmt::format("--deadline {}: is over", job.deadline));
}

void Jobs::check_mounts(const Job& job) {
  for (const auto& [name, path] : job.mounts) {
    if (!std::filesystem::exists(path))
      throw InputError(fmt::format("--mount {}={}: there is no such folder", name, path));
  }
}

std::string Jobs::describe(const Job& job) {
  check(job);
  Submission submission = submission_of(job, JobFolder(folders_.root() / (job.name + "-N")), 1);
  submission.after = engine_job_before(job);
  return engine_.describe(submission);
}

Jobs::Submitted Jobs::submit(const Job& job) {
  check(job);
  check_mounts(job);
  if (!job.after.empty()) folders_.find(job.after);  // before there is one of this job
  engine_jobs();                                     // which says at once that there is no cluster
  {
    // Of an elastic job the coordinator alone is submitted here: would there ever be nodes for the
    // others?
    Submission largest = submission_of(job, JobFolder(folders_.root()), 1);
    largest.folder = "/";
    if (job.is_elastic()) largest.mark.role = Role::workers;
    largest.nodes = job.max_nodes;
    engine_.check(largest);
  }
  const auto made = folders_.make(job);
  const UniqueFd lock = made.folder.lock();
  if (made.folder.submission().number > 0) {
    // Whoever asked for it with this key may have been killed before the engine had it.
    const JobFacts facts = read_facts(made.folder);
    if (facts.result || facts.cancelled || facts.attempts > 0 ||
        !engine_jobs(made.folder.id()).empty())
      return {made.folder, false};
  }
  try {
    submit_to_engine(made.folder, job, 1, lock.get());
  } catch (const TimeoutError&) {
    throw;  // it may have been submitted
  } catch (const Error&) {
    // Unless the engine has it nevertheless; where it does not say so, the folder stays.
    if (made.is_new && engine_jobs(made.folder.id()).empty())
      std::filesystem::remove_all(made.folder.path());
    throw;
  }
  return {made.folder, made.is_new};
}

void Jobs::submit_to_engine(const JobFolder& folder, const Job& job, int number, int lock) {
  check_deadline(job);
  Submission submission = submission_of(job, folder, number);
  submission.after = engine_job_before(job);
  submission.inherited_fd = lock;
  folder.set_submission(
      {.number = number, .time = std::time(nullptr), .first_attempt = folder.attempts() + 1});
  engine_.submit(submission);
}

void Jobs::cancel(const JobFolder& folder) {
  const UniqueFd lock = folder.lock();  // after whoever submits it
  const JobView before = view(folder);
  if (is_over(before.state))
    throw InputError(fmt::format("job {} is over: {}", folder.id(), to_text(before.state)));
  folder.set_cancelled(true);
  engine_.cancel(to_cancel(before, engine_jobs(folder.id())));
}

std::vector<std::string> Jobs::end_all() {
  if (std::ranges::all_of(folders_.all(), has_result)) return {};
  const Deadline deadline(std::chrono::seconds{45}, "the limit for jobs to end");
  std::set<std::string> cancelled;  // of the engine's
  std::set<std::string> ran;        // until now
  for (;;) {
    const auto of_job = engine_jobs_by_id();
    const JobList list = this->list(of_job);
    std::vector<std::string> ids;
    bool is_any_live = false;
    for (const JobView& view : list.jobs) {
      const auto& id = view.facts.id;
      if (view.facts.result || view.state == JobState::unsubmitted) continue;
      const JobFolder folder = find(id);
      if (is_over(view.state)) {
        folder.set_result(result_of(view, ran.contains(id) ? std::time(nullptr) : 0));
        continue;
      }
      is_any_live = true;
      ran.insert(id);
      const UniqueFd lock = folder.lock();  // after whoever submits it
      folder.set_cancelled(true);
      const auto found = of_job.find(id);
      if (found == of_job.end()) continue;
      for (auto& one : to_cancel(view, found->second)) {
        if (cancelled.insert(one).second) ids.push_back(std::move(one));
      }
    }
    engine_.cancel(ids);
    if (!is_any_live) return list.problems;
    if (deadline.passed()) throw TimeoutError("jobs did not end " + deadline.describe());
    std::this_thread::sleep_for(std::chrono::milliseconds{200});
  }
}

void Jobs::retry(const JobFolder& folder) {
  const UniqueFd lock = folder.lock();
  const JobView before = view(folder);
  if (!is_over(before.state) && before.state != JobState::unsubmitted) {
    throw InputError(
        fmt::format("job {} is {}: what is over can be begun again (sullae jobs cancel {} ends it)",
                    folder.id(), to_text(before.state), folder.id()));
  }
  folder.set_cancelled(false);
  try {
    submit_to_engine(folder, before.facts.job, before.facts.submission.number + 1, lock.get());
  } catch (const TimeoutError&) {
    throw;  // it may have been submitted
  } catch (const Error&) {
    folder.set_submission(before.facts.submission);
    folder.set_cancelled(before.facts.cancelled);
    throw;
  }
}

void Jobs::resize(const JobFolder& folder, const Size& size) {
  const JobView before = view(folder);
  if (is_over(before.state))
    throw InputError(fmt::format("job {} is over: {}", folder.id(), to_text(before.state)));
  if (!before.facts.job.is_elastic()) {
    throw InputError(fmt::format(
        "job {} has {} node{} from its beginning to its end: jobs submitted with --min-nodes below "
        "--max-nodes can be resized",
        folder.id(), before.facts.job.min_nodes, before.facts.job.min_nodes == 1 ? "" : "s"));
  }
  if (size.min_nodes < 1 || size.min_nodes > size.max_nodes)
    throw InputError(fmt::format("--min {}, --max {}: expected them in this order, from 1 on",
                                 size.min_nodes, size.max_nodes));
  Submission largest = submission_of(before.facts.job, folder, 1);
  largest.mark.role = Role::workers;
  largest.nodes = size.max_nodes;
  engine_.check(largest);
  folder.set_size(size);
}

// What is over needs no engine, which may be gone. What ends meanwhile has its result when the
// folder is read last.
JobView Jobs::view(const JobFolder& folder) {
  JobFacts facts = read_facts(folder);
  if (facts.result) return view_of(std::move(facts), {});
  const auto jobs = engine_jobs(folder.id());
  return view_of(read_facts(folder), jobs);
}

void Jobs::keep_end(const JobView& view) const {
  // What an engine has preempted, or lost, it may begin again.
  const bool is_final = view.state == JobState::cancelled || view.state == JobState::past_deadline;
  if (!is_final || view.facts.result || view.engine_id.empty()) return;
  const JobFolder folder(folders_.root() / view.facts.id);
  const UniqueFd lock = folder.lock();
  const int number = folder.submission().number;
  if (number != view.facts.submission.number || folder.result(number)) return;  // known meanwhile
  folder.set_result(result_of(view, view.ended));
}

JobList Jobs::list() {
  const bool is_all_over = std::ranges::all_of(folders_.all(), has_result);
  return list(is_all_over ? JobsById{} : engine_jobs_by_id());
}

JobList Jobs::over() {
  JobList list = this->list({});
  std::erase_if(list.jobs, [](const JobView& view) { return !view.facts.result; });
  return list;
}

Jobs::JobsById Jobs::engine_jobs_by_id() {
  JobsById of_job;
  for (EngineJob& job : engine_jobs()) of_job[job.mark.id].push_back(std::move(job));
  return of_job;
}

JobList Jobs::list(const JobsById& of_job) {
  static const std::vector<EngineJob> none;
  JobList list;
  for (const JobFolder& folder : folders_.all()) {
    try {
      const auto found = of_job.find(folder.id());
      list.jobs.push_back(
          view_of(read_facts(folder), found == of_job.end() ? none : found->second));
    } catch (const std::exception& error) {
      list.problems.emplace_back(error.what());
    }
  }
  return list;
}

}  // namespace sullae::cluster

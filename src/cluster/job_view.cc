#include "cluster/job_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

namespace sullae::cluster {
namespace {

struct Word {
  JobState state;
  const char* text;
};

// In which a client that has written its submission down has the engine's answer, or has given up.
constexpr std::int64_t kSubmitSeconds = 120;

constexpr std::array<Word, 12> kWords = {{
    {JobState::unsubmitted, "unsubmitted"},
    {JobState::pending, "pending"},
    {JobState::running, "running"},
    {JobState::completed, "completed"},
    {JobState::failed, "failed"},
    {JobState::cancelled, "cancelled"},
    {JobState::preempted, "preempted"},
    {JobState::timed_out, "timed out"},
    {JobState::out_of_memory, "out of memory"},
    {JobState::node_lost, "node lost"},
    {JobState::past_deadline, "past its deadline"},
    {JobState::vanished, "vanished"},
}};

using Ending = std::pair<End, JobState>;
constexpr std::array<Ending, 7> kEndings = {{
    {End::completed, JobState::completed},
    {End::failed, JobState::failed},
    {End::cancelled, JobState::cancelled},
    {End::preempted, JobState::preempted},
    {End::timed_out, JobState::timed_out},
    {End::node_lost, JobState::node_lost},
    {End::past_deadline, JobState::past_deadline},
}};

JobState state_of(End end) { return std::ranges::find(kEndings, end, &Ending::first)->second; }

// Slurm's words for what its users ask about most.
std::string explain_waiting(const std::string& reason) {
  if (reason.empty()) return {};
  if (reason == "Resources" || reason == "Priority") return "waits for nodes (" + reason + ")";
  if (reason.starts_with("Dependency")) return "waits for another job (" + reason + ")";
  if (reason == "BeginTime") return "waits to begin again";
  return reason;
}

void look_at_pending(JobView& view, const EngineJob& job) {
  view.state = JobState::pending;
  view.reason = explain_waiting(job.reason);
  if (view.facts.attempts == 0) return;
  const auto& last = view.facts.last_attempt;
  if (last && !is_of_engine(last->end)) return;  // retried
  view.reason = fmt::format("attempt {}: {}; goes on in the next one{}", view.facts.attempts,
                            last ? to_text(last->end) : std::string("preempted, or lost its node"),
                            view.reason.empty() ? "" : ": " + view.reason);
}

// One that has left no result of its own.
void look_at_ended(JobView& view, const EngineJob& job) {
  const auto is = [&](JobState state, const std::string& reason) {
    view.state = state;
    view.reason = reason;
    view.exit_code = 1;
  };
  switch (job.state) {
    case EngineState::preempted:
      return is(JobState::preempted, "its nodes were taken by jobs of higher priority");
    case EngineState::timed_out:
      return is(JobState::timed_out, "it was still running at its time limit (--time)");
    case EngineState::out_of_memory:
      return is(JobState::out_of_memory,
                "the node's memory for it was used up; --engine-option --mem=… asks for more");
    case EngineState::node_lost:
      return is(JobState::node_lost, "its node went down");
    case EngineState::past_deadline:
      return is(JobState::past_deadline, "it could not end by --deadline any more");
    case EngineState::cancelled:
      return is(JobState::cancelled,
                job.reason.find("Dependency") != std::string::npos
                    ? fmt::format("job {} did not end well", view.facts.job.after)
                : view.facts.cancelled ? std::string()
                                       : "by the engine's own command");
    case EngineState::ended:
    case EngineState::failed:
    case EngineState::pending:
    case EngineState::running:
      return is(JobState::failed, "its coordinator ended without a result; see slurm-" + job.id +
                                      ".log in its folder");
  }
}

}  // namespace

std::string to_text(JobState state) { return std::ranges::find(kWords, state, &Word::state)->text; }

End end_of(JobState state) {
  const auto* const found = std::ranges::find(kEndings, state, &Ending::second);
  return found == kEndings.end() ? End::failed : found->first;
}

bool is_over(JobState state) {
  return state != JobState::pending && state != JobState::running && state != JobState::unsubmitted;
}

JobFacts read_facts(const JobFolder& folder) {
  JobFacts facts{.id = folder.id(), .job = folder.job()};
  facts.size = folder.size(facts.job);
  facts.submission = folder.submission();
  facts.result = folder.result(facts.submission.number);
  facts.cancelled = folder.is_cancelled();
  facts.attempts = folder.attempts();
  if (facts.attempts > 0) facts.last_attempt = folder.attempt_result(facts.attempts);
  return facts;
}

JobView view_of(JobFacts facts, std::span<const EngineJob> jobs) {
  JobView view{.facts = std::move(facts)};
  const EngineJob* coordinator = nullptr;
  for (const EngineJob& job : jobs) {
    if (job.mark.id != view.facts.id || job.mark.submission != view.facts.submission.number)
      continue;
    // Of the same mark there may be an older one, of a folder that was removed.
    const bool is_newest = coordinator == nullptr || job.submitted >= coordinator->submitted;
    if (job.mark.role == Role::coordinator && is_newest) coordinator = &job;
    const bool has_ranks = job.mark.role == Role::workers || !view.facts.job.is_elastic();
    if (job.state != EngineState::running || !has_ranks) continue;
    view.nodes += job.nodes;
    view.hosts.insert(view.hosts.end(), job.hosts.begin(), job.hosts.end());
  }
  view.submitted = view.facts.submission.time;
  if (coordinator != nullptr) {
    view.engine_id = coordinator->id;
    // Slurm says a time of those, too, that were cancelled before they began.
    const bool never_began =
        coordinator->state == EngineState::pending ||
        (coordinator->state == EngineState::cancelled && view.facts.attempts == 0);
    if (!never_began) view.started = coordinator->started;
  }
  if (const auto& result = view.facts.result) {
    view.state = state_of(result->end);
    view.reason = result->reason;
    view.exit_code = result->exit_code;
    view.started = result->started;
    view.ended = result->ended;
    return view;
  }
  if (coordinator == nullptr) {
    if (view.facts.cancelled) {
      view.state = JobState::cancelled;
      view.exit_code = 1;
    } else if (view.facts.submission.number == 0) {
      view.state = JobState::unsubmitted;
      view.reason =
          fmt::format("submitting it did not end; sullae jobs retry {} submits it", view.facts.id);
    } else if (view.facts.attempts < view.facts.submission.first_attempt &&
               std::time(nullptr) < view.submitted + kSubmitSeconds) {
      view.state = JobState::pending;
      view.reason = "is being submitted";
    } else {
      view.state = JobState::vanished;
      view.exit_code = 1;
      view.reason = fmt::format(
          "the engine does not know it any more, and it has left no result; sullae jobs retry {} "
          "goes on from its checkpoint",
          view.facts.id);
    }
    return view;
  }
  if (coordinator->state == EngineState::pending) {
    look_at_pending(view, *coordinator);
  } else if (coordinator->state == EngineState::running) {
    view.state = JobState::running;
    if (view.facts.job.is_elastic() && view.nodes < view.facts.size.min_nodes)
      view.reason = fmt::format("waits for {} node{}", view.facts.size.min_nodes - view.nodes,
                                view.facts.size.min_nodes - view.nodes == 1 ? "" : "s");
  } else {
    look_at_ended(view, *coordinator);
  }
  return view;
}

}  // namespace sullae::cluster

#include "dashboard/run_state.h"

#include <fmt/format.h>

namespace sullae::dashboard {

RunState state_of(const Run& run, const ClusterState* cluster, const std::string& host) {
  const auto& record = run.record;
  if (!run.problem.empty()) return {"unreadable", run.problem, true};
  const auto& ended = record.ended;
  if (ended && ended->end != runs::End::stopped) return {to_text(ended->end), ended->reason, true};
  if (run.is_live.value_or(false)) return {"running", "", false};
  // One that was stopped goes on where its job does.
  const auto* const job = cluster == nullptr ? nullptr : cluster->find(record.job);
  if (job != nullptr && job->state != cluster::JobState::completed)
    return {to_text(job->state), job->reason, cluster::is_over(job->state)};
  if (ended) return {to_text(ended->end), ended->reason, true};
  if (record.host != host)
    return {"unknown",
            fmt::format("it was started on {}, and whether it runs there is not seen from here",
                        record.host),
            true};
  if (!run.is_live)
    return {"unknown", "its metrics.jsonl cannot be looked at, and so not whether it runs", true};
  return {"killed",
          fmt::format("process {} was ended by a signal, or from outside (Ctrl-C, kill, a machine "
                      "that went down): it has left no word",
                      record.pid),
          true};
}

}  // namespace sullae::dashboard

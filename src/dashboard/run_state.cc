#include "dashboard/run_state.h"

#include <fmt/format.h>

#include <algorithm>

namespace sullae::dashboard {

RunState state_of(const Run& run, const ClusterState* cluster, const std::string& host) {
  const auto& record = run.record;
  if (!run.problem.empty()) return {"unreadable", run.problem, true};
  if (const auto& ended = record.ended) return {to_text(ended->end), ended->reason, true};
  if (run.is_live) return {"running", "", false};
  if (cluster != nullptr && !record.job.empty()) {
    for (const auto& view : cluster->jobs) {
      if (view.facts.id != record.job) continue;
      return {to_text(view.state), view.reason, cluster::is_over(view.state)};
    }
  }
  if (record.host != host)
    return {"unknown",
            fmt::format("it was started on {}, and whether it runs there is not seen from here",
                        record.host),
            true};
  return {"killed", fmt::format("process {} has ended without a word", record.pid), true};
}

}  // namespace sullae::dashboard

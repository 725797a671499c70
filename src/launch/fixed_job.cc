#include "launch/fixed_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "base/host.h"
#include "launch/hosts.h"

namespace sullae {

void FixedJob::start() {
  const std::vector<Host> here{{"localhost", options().ranks}};
  const auto placements =
      place_ranks(options().hosts.empty() ? here : options().hosts, options().ranks);
  const bool all_here = placements.size() == 1 &&
                        make_host_launcher(placements.front().host.name, options())->is_here();
  start_store(all_here);
  for (const Placement& placement : placements) {
    RunningAgent& agent = start_agent(placement.host.name);
    ranks_[&agent] = placement.ranks;
    start_processes(agent, {.ranks = placement.ranks, .size = options().ranks});
  }
}

void FixedJob::on_host_lost(RunningAgent& agent, const std::string& why) {
  const auto& ranks = ranks_[&agent];
  if (std::ranges::all_of(ranks, [&](int rank) { return ended_.contains(rank); })) return;
  if (!agent.ready) throw Error(why);
  if (!ending()) say(why + "; ending all ranks");
  for (const int rank : ranks) {
    if (ended_.insert(rank).second) --running_;
  }
  end_all(SIGTERM, 1);
}

void FixedJob::on_process_ended(RunningAgent& agent, int rank, int status) {
  if (!ended_.insert(rank).second) return;
  --running_;
  if (status == 0 || ending()) return;
  const int others = running_;
  say(fmt::format("rank {} (process {} on {}) {}{}", rank, pid_of(rank),
                  agent.is_here ? host_name() : agent.host, describe_status(status),
                  others > 0 ? "; ending the other ranks" : ""));
  end_all(SIGTERM, exit_code_of(status));
}

}  // namespace sullae

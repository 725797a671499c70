#include "launch/fixed_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <span>
#include <utility>

#include "base/host.h"
#include "launch/ended_ranks.h"
#include "launch/hosts.h"
#include "launch/remote_shell.h"
#include "transport/joining_keys.h"

namespace sullae {
namespace {

// So many deaths of a server within so long end the job.
constexpr std::size_t kMostDeaths = 5;
constexpr std::chrono::seconds kManyDeaths{60};
// So long servers may save what they hold.
constexpr std::chrono::minutes kSaveLimit{5};

}  // namespace

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
  }
  const int servers = options().parameter_servers ? options().parameter_servers->count : 0;
  for (int server = 0; server < servers; ++server)
    start_server(agents()[static_cast<std::size_t>(server) % agents().size()], server);
  for (RunningAgent& agent : agents()) {
    AgentSpec spec{.ranks = ranks_[&agent], .size = options().ranks, .more_to_come = servers > 0};
    if (servers > 0) spec.environment["SULLAE_PS"] = fmt::to_string(servers);
    start_processes(agent, std::move(spec));
  }
}

// It has all of the host's processors, as workers wait for it.
void FixedJob::start_server(RunningAgent& agent, int server) {
  AgentSpec spec{.command = {own_program(), "ps", "--workers", fmt::to_string(options().ranks),
                             "--staleness", fmt::to_string(options().parameter_servers->staleness),
                             "--index", fmt::to_string(server)},
                 .ranks = {options().ranks + server},
                 .size = options().ranks,
                 .slots = {0},
                 .host_slots = 1,
                 .more_to_come = true,
                 .bind = false};
  if (const auto& directory = options().parameter_servers->directory; !directory.empty()) {
    spec.command.insert(spec.command.end(),
                        {"--state", (directory / fmt::format("ps-{}.state", server)).string()});
  }
  if (agent.is_here) {
    spec.command.insert(
        spec.command.end(),
        {"--host", options().store_host.empty() ? host_name() : options().store_host});
  }
  servers_[&agent].insert(server);
  living_servers_.insert(server);
  start_processes(agent, std::move(spec));
}

void FixedJob::on_server_ended(RunningAgent& agent, int server, int status) {
  living_servers_.erase(server);
  if (ending()) {
    // Asked to end, it has saved what it holds, or says why not; or it had not begun.
    const bool ended_well = status == 0 || exit_code_of(status) == 128 + SIGTERM;
    if (running_ > 0 || ended_well || asked_to_end()) return;
    say(fmt::format("parameter server {} {}", server, describe_status(status)));
    return fail_with(exit_code_of(status));
  }
  // One that dies again and again will not live.
  auto& deaths = deaths_[server];
  deaths.push_back(Clock::now());
  if (deaths.size() > kMostDeaths) deaths.pop_front();
  const bool lives = deaths.size() < kMostDeaths || deaths.back() - deaths.front() > kManyDeaths;
  const bool starts_again = exit_code_of(status) > 128 && lives;
  say(fmt::format("parameter server {} (process {} on {}) {}; {}", server,
                  pid_of(options().ranks + server), agent.is_here ? host_name() : agent.host,
                  describe_status(status),
                  starts_again ? "starting it again" : "ending all ranks"));
  if (starts_again) return start_server(agent, server);
  end_all(SIGTERM, status == 0 ? 1 : exit_code_of(status));
}

// False where it is known. Servers are told, and wait no more.
bool FixedJob::note_end(int rank) {
  if (has_ended(rank)) return false;
  --running_;
  ended_.push_back(rank);
  if (!options().parameter_servers) return true;
  const std::size_t others = ended_.size() - 1;
  store().set(ended_rank_key(others), fmt::to_string(rank));
  // The others go on, and may be about to make a world with it: that of all, or one of Survivors.
  for (std::size_t world = 0; world <= others; ++world)
    store().set(joining_key_without(std::span(ended_).first(world), rank), std::string(kHasEnded));
  return true;
}

// Which save what they hold when they are asked to.
void FixedJob::end_servers() {
  if (running_ == 0 && !living_servers_.empty())
    end_all(SIGTERM, 0, std::max<std::chrono::milliseconds>(options().grace, kSaveLimit));
}

// Whether the job ends without the ranks that run there.
bool FixedJob::needs(const RunningAgent& agent) const {
  const auto& ranks = ranks_.at(&agent);
  return !options().parameter_servers || std::ranges::find(ranks, 0) != ranks.end();
}

void FixedJob::on_host_lost(RunningAgent& agent, const std::string& why) {
  const auto& ranks = ranks_[&agent];
  const auto servers = std::exchange(servers_[&agent], {});
  const auto lost =
      std::ranges::count_if(servers, [&](int server) { return living_servers_.erase(server) > 0; });
  if (servers.empty() && std::ranges::all_of(ranks, [&](int rank) { return has_ended(rank); }))
    return;
  if (!agent.ready && !ending()) throw Error(why);
  const bool is_end = !servers.empty() || needs(agent);
  if (!ending()) say(why + (is_end ? "; ending all ranks" : "; the other workers may go on"));
  for (const int rank : ranks) {
    note_end(rank);
  }
  // What servers hold is lost, and they were to save it.
  if (ending() && running_ == 0 && lost > 0) fail_with(1);
  if (is_end) end_all(SIGTERM, 1);
  end_servers();
}

void FixedJob::on_process_ended(RunningAgent& agent, int rank, int status) {
  if (rank >= options().ranks) return on_server_ended(agent, rank - options().ranks, status);
  if (note_end(rank)) on_rank_ended(agent, rank, status);
  end_servers();
}

void FixedJob::on_rank_ended(const RunningAgent& agent, int rank, int status) {
  if (status == 0 || ending()) return;
  const int others = running_;
  const bool is_end = rank == 0 || !options().parameter_servers;
  say(fmt::format("rank {} (process {} on {}) {}{}", rank, pid_of(rank),
                  agent.is_here ? host_name() : agent.host, describe_status(status),
                  others == 0 ? ""
                  : is_end    ? "; ending the other ranks"
                              : "; the other workers may go on"));
  if (is_end) end_all(SIGTERM, exit_code_of(status));
}

}  // namespace sullae

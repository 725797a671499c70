#include "launch/elastic/elastic_job.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/host.h"
#include "base/json_message.h"

namespace sullae::elastic {
namespace {

// Between the end of a worker's connection and the report of its process's end, which the agent
// makes when the output has ended, too.
constexpr Milliseconds kSilenceLimit = kDrainLimit + Milliseconds{500};

Limits limits_of(const JobOptions& options) {
  const auto& elastic = options.elastic.value();
  return {.start = options.ranks,
          .min_ranks = elastic.min_ranks,
          .max_ranks = elastic.max_ranks,
          .first_cooldown = elastic.first_cooldown,
          .last_cooldown = elastic.last_cooldown,
          .changes = elastic.reset_limit,
          .timeout = elastic.timeout};
}

// By whoever manages the host, not by a fault of the program's own.
bool is_from_outside(int status) {
  if (!WIFSIGNALED(status)) return false;
  const int signal = WTERMSIG(status);
  return signal == SIGKILL || signal == SIGTERM || signal == SIGHUP || signal == SIGINT;
}

}  // namespace

ElasticJob::ElasticJob(const JobOptions& options)
    : Job(options),
      membership_(limits_of(options)),
      source_(options.elastic->source.get()),
      heard_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

// Its thread tells this object.
ElasticJob::~ElasticJob() { stop_store(); }

void ElasticJob::start() {
  std::vector<Host> hosts = options().hosts;
  if (hosts.empty() && source_ == nullptr)
    hosts.push_back({"localhost", std::max(options().ranks, options().elastic->max_ranks)});
  const bool all_here = source_ == nullptr && std::ranges::all_of(hosts, [&](const Host& host) {
                          return make_host_launcher(host.name, options())->is_here();
                        });
  start_store(all_here, {.on_set = [this](const std::string& key,
                                          const std::string& value) { on_key(key, value); },
                         .on_gone =
                             [this](const std::string& key) {
                               on_key(key, "");
                             }});
  set_supply(source_ == nullptr ? Supply{.hosts = std::move(hosts)} : source_->first());
}

// In the store's thread.
void ElasticJob::on_key(const std::string& key, const std::string& value) {
  const int worker = worker_of(key);
  if (worker < 0) return;
  const std::lock_guard lock(mutex_);
  received_.emplace_back(worker, value);
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(heard_.get(), &one, sizeof one);
}

void ElasticJob::set_supply(Supply supply) {
  if (supply.min_ranks && supply.max_ranks)
    membership_.set_limits(*supply.min_ranks, *supply.max_ranks);
  supplied_ = std::move(supply.hosts);
  std::erase_if(taken_back_, [&](const std::string& host) {
    return std::ranges::find(supplied_, host, &Host::name) == supplied_.end();
  });
  set_hosts();
}

void ElasticJob::set_hosts() {
  std::vector<Host> hosts = supplied_;
  std::erase_if(hosts, [&](const Host& host) { return taken_back_.contains(host.name); });
  membership_.set_hosts(std::move(hosts), Clock::now());
  act();
}

// Those of hosts that the job has no more, once their ranks are gone.
void ElasticJob::release_agents() {
  for (RunningAgent& agent : agents()) {
    const auto& hosts = membership_.hosts();
    if (agent.gone || std::ranges::find(hosts, agent.host, &Host::name) != hosts.end()) continue;
    if (std::ranges::any_of(workers_, [&](const auto& one) { return one.second.agent == &agent; }))
      continue;
    agent.gone = true;
    agent.channel.input.reset();
    agent.channel.output.reset();
    if (source_ != nullptr) source_->released(agent.host);
  }
}

bool ElasticJob::finished() const {
  return workers_.empty() && (ending() || membership_.finishing());
}

void ElasticJob::on_process_ended(RunningAgent& agent, int id, int status) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return;
  const bool was_stopped = found->second.kill_at.has_value();
  const bool left = found->second.left || (was_stopped && status != 0);
  workers_.erase(found);
  const Ending ending_of = left                      ? Ending::left
                           : status == 0             ? Ending::done
                           : is_from_outside(status) ? Ending::killed
                                                     : Ending::failed;
  const auto& pid = pid_of(id);  // none of what was not started
  const auto how = pid.empty() ? describe_status(status)
                               : fmt::format("(process {}) {}", pid, describe_status(status));
  forget(id);
  if ((ending_of == Ending::failed || ending_of == Ending::killed) && !ending()) {
    failure_code_ = exit_code_of(status);
    if (membership_.finishing()) {
      say(fmt::format("worker {} on {} {}; ending the other ranks", id, name_of(agent), how));
      return end_all(SIGTERM, failure_code_);
    }
  }
  membership_.ended(id, ending_of, how, Clock::now());
  if (membership_.finishes_without_one()) fail_with(failure_code_);
  act();
}

void ElasticJob::on_host_lost(RunningAgent& agent, const std::string& why) {
  std::vector<int> lost;
  bool was_needed = false;
  for (const auto& [id, worker] : workers_) {
    if (worker.agent != &agent) continue;
    lost.push_back(id);
    was_needed = was_needed || !worker.is_to_end();
  }
  for (const int id : lost) workers_.erase(id);
  if (!ending() && membership_.finishing() && was_needed) {
    say(why + "; ending the other ranks");
    return end_all(SIGTERM, 1);
  }
  if (!ending()) say(why);
  membership_.lost(agent.host, "is lost with its host", Clock::now());
  if (source_ != nullptr) source_->released(agent.host);
  act();
}

void ElasticJob::on_host_taken_back(RunningAgent& agent, const std::string& why) {
  if (ending() || !taken_back_.insert(agent.host).second) return;
  say(fmt::format("{}: its ranks go after the step", why));
  membership_.taken_back(agent.host);
  set_hosts();
}

// A host is no reason to end the job, unless it was wrong from the start.
void ElasticJob::on_agent_failed(RunningAgent& agent, const std::string& why) {
  if (membership_.generation().number < 0) return Job::on_agent_failed(agent, why);
  give_up(agent, why);
}

void ElasticJob::on_pause() {
  Job::on_pause();
  for (auto& [worker, since] : silent_since_) since = Clock::now();
}

void ElasticJob::on_asked_to_end() {
  membership_.close(Clock::now());
  act();
}

void ElasticJob::add_to_poll(std::vector<pollfd>& polled) {
  polled.push_back({heard_.get(), POLLIN, 0});
  if (source_ != nullptr) polled.push_back({source_->fd(), POLLIN, 0});
}

Milliseconds ElasticJob::poll_limit() const {
  Milliseconds limit{1000};
  const auto until = [&](Time time) {
    limit = std::min(
        limit, std::max(Milliseconds{0}, std::chrono::ceil<Milliseconds>(time - Clock::now())));
  };
  if (membership_.next_tick()) until(*membership_.next_tick());
  if (source_ != nullptr) until(source_->next());
  for (const auto& [worker, since] : silent_since_) until(since + kSilenceLimit);
  for (const auto& [id, worker] : workers_) {
    if (worker.kill_at) until(*worker.kill_at);
  }
  return limit;
}

void ElasticJob::after_poll(std::span<const pollfd> polled) {
  if (polled[0].revents != 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(heard_.get(), &count, sizeof count);
  }
  std::deque<std::pair<int, std::string>> received;
  {
    const std::lock_guard lock(mutex_);
    received.swap(received_);
  }
  for (const auto& [worker, text] : received) {
    if (text.empty()) {
      silent_since_.try_emplace(worker, Clock::now());
      continue;
    }
    try {
      on_message(worker, WorkerMessage::from_json(text));
    } catch (const nlohmann::json::exception& error) {
      say(fmt::format("worker {} sent what is not understood: {}", worker, json_message(error)));
    }
  }
  act();
  if (source_ != nullptr) {
    if (auto supply = source_->turn()) set_supply(std::move(*supply));
  }
  give_silent_ones_up();
  kill_late_ones();
  membership_.tick(Clock::now());
  act();
  release_agents();
}

// A process that has ended is reported by its agent; one that has not, and whose connection is
// broken, is cut off.
void ElasticJob::give_silent_ones_up() {
  std::erase_if(silent_since_, [&](const auto& one) {
    const auto worker = workers_.find(one.first);
    return worker == workers_.end() || worker->second.exits;
  });
  for (const auto& [id, since] : std::exchange(silent_since_, {})) {
    if (Clock::now() < since + kSilenceLimit) {
      silent_since_.emplace(id, since);
      continue;
    }
    Worker& worker = workers_.at(id);
    RunningAgent& agent = *worker.agent;
    send_signal(agent, id, SIGKILL);
    const bool was_needed = !worker.is_to_end();
    workers_.erase(id);
    if (!ending() && membership_.finishing() && was_needed) {
      say(fmt::format("worker {} on {} cannot be reached any more; ending the other ranks", id,
                      name_of(agent)));
      end_all(SIGTERM, 1);
    }
    membership_.ended(id, Ending::failed, "cannot be reached any more", Clock::now());
    // Whatever would be started through it would not be heard of.
    const bool has_others =
        std::ranges::any_of(workers_, [&](const auto& one) { return one.second.agent == &agent; });
    if (!agent.is_here && !agent.gone && !has_others)
      give_up(agent, fmt::format("host {} is given up", agent.host));
  }
}

void ElasticJob::kill_late_ones() {
  for (auto& [id, worker] : workers_) {
    if (!worker.kill_at || Clock::now() < *worker.kill_at) continue;
    send_signal(*worker.agent, id, SIGKILL);
    *worker.kill_at += options().grace;
  }
}

void ElasticJob::on_message(int id, const WorkerMessage& message) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return;
  switch (message.kind) {
    case WorkerMessage::Kind::leaving:
      return membership_.leaves(id, Clock::now());
    case WorkerMessage::Kind::left:
      found->second.left = true;
      return membership_.left(id, Clock::now());
    case WorkerMessage::Kind::exiting:
      found->second.exits = true;
      return;
    case WorkerMessage::Kind::ready:
      return membership_.ready(id, message.reason, Clock::now());
  }
}

std::string ElasticJob::name_of(const RunningAgent& agent) const {
  return agent.is_here ? host_name() : agent.host;
}

}  // namespace sullae::elastic

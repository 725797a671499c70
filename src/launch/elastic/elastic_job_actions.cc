// What Membership decides, done.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "launch/elastic/elastic_job.h"

namespace sullae::elastic {

namespace {

// When nothing is decided any more but who keeps the state.
bool matters_at_the_end(const Action& action) {
  const auto* const form = std::get_if<Form>(&action);
  return std::holds_alternative<Stop>(action) || std::holds_alternative<Abandon>(action) ||
         (form != nullptr && form->is_last);
}

}  // namespace

void ElasticJob::act() {
  for (;;) {
    const auto actions = membership_.take_actions();
    if (actions.empty()) return;
    for (const Action& action : actions) {
      if (ending() && !matters_at_the_end(action)) continue;
      std::visit([this](const auto& one) { act_on(one); }, action);
    }
  }
}

RunningAgent& ElasticJob::agent_on(const std::string& host) {
  for (RunningAgent& agent : agents()) {
    if (agent.host == host && !agent.gone) return agent;
  }
  return start_agent(host);
}

void ElasticJob::act_on(const Start& start) {
  RunningAgent* agent = nullptr;
  try {
    agent = &agent_on(start.host);
  } catch (const Error& error) {
    return membership_.ended(start.worker, Ending::failed,
                             fmt::format("could not be started: {}", error.what()), Clock::now());
  }
  workers_[start.worker] = {.agent = agent};
  AgentSpec spec{.ranks = {start.worker},
                 .size = options().elastic->max_ranks,
                 .slots = {start.slot},
                 .host_slots = start.slots,
                 .more_to_come = true,
                 .may_fail = membership_.generation().number >= 0};
  spec.environment[kWorkerVariable] = fmt::to_string(start.worker);
  spec.environment[kLeastVariable] = fmt::to_string(options().elastic->min_ranks);
  spec.environment[kTimeoutVariable] =
      fmt::format("{:g}", std::chrono::duration<double>(options().elastic->timeout).count());
  start_processes(*agent, std::move(spec));
}

void ElasticJob::act_on(const Stop& stop) {
  const auto found = workers_.find(stop.worker);
  if (found == workers_.end()) return;
  RunningAgent& agent = *found->second.agent;
  const auto queued = std::ranges::find_if(agent.to_start, [&](const AgentSpec& spec) {
    return spec.ranks == std::vector<int>{stop.worker};
  });
  if (queued != agent.to_start.end()) {
    agent.to_start.erase(queued);
    agent.ranks.erase(stop.worker);
    workers_.erase(found);
    return membership_.ended(stop.worker, Ending::left, "", Clock::now());
  }
  found->second.kill_at = Clock::now() + options().grace;
  send(stop.worker, {.kind = LauncherMessage::Kind::release});
  send_signal(agent, stop.worker, SIGTERM);
}

void ElasticJob::act_on(const Interrupt& interrupt) {
  for (const int worker : interrupt.generation.workers) {
    const bool goes = std::ranges::find(interrupt.leaving, worker) != interrupt.leaving.end();
    send(worker, {.kind = LauncherMessage::Kind::interrupt,
                  .generation = interrupt.generation.number,
                  .goes = goes,
                  .reason = interrupt.reason});
  }
}

void ElasticJob::act_on(const Abandon& abandon) {
  if (!ending())
    say(fmt::format("generation {}: {}; the other ranks go on without it",
                    abandon.generation.number, abandon.reason));
  send_to_members(abandon.generation,
                  {.kind = LauncherMessage::Kind::abandon, .reason = abandon.reason});
  // Whoever makes its world waits in vain.
  store().give_up(generation_prefix(abandon.generation.number));
}

void ElasticJob::act_on(const Form& form) {
  const Generation& made = form.generation;
  failure_code_ = 1;  // what happened before, the job goes on after
  const auto size = static_cast<int>(made.workers.size());
  if (made.number > 0) store().give_up(generation_prefix(made.number - 1));
  if (made.number > 0) {
    const double pause = form.pause ? std::chrono::duration<double>(*form.pause).count() : 0.0;
    say(fmt::format("generation {}: {} rank{} ({}) after {:.2f} s", made.number, size,
                    size == 1 ? "" : "s", form.reason, pause));
  }
  for (int rank = 0; rank < size; ++rank) {
    send(made.workers[static_cast<std::size_t>(rank)], {.kind = LauncherMessage::Kind::form,
                                                        .generation = made.number,
                                                        .rank = rank,
                                                        .size = size,
                                                        .goes = form.is_last,
                                                        .reason = form.reason});
  }
}

void ElasticJob::act_on(const Note& note) { say(note.text); }

void ElasticJob::act_on(const Fail& fail) {
  say(fail.reason + "; ending the job");
  end_all(SIGTERM, failure_code_);
}

void ElasticJob::send(int id, const LauncherMessage& message) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return;
  store().set(launcher_message_key(id, found->second.messages++), message.to_json());
}

void ElasticJob::send_to_members(const Generation& generation, LauncherMessage message) {
  message.generation = generation.number;
  for (const int worker : generation.workers) send(worker, message);
}

}  // namespace sullae::elastic

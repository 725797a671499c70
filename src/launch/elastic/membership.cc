#include "launch/elastic/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace sullae::elastic {
namespace {

double seconds_until(Time time, Time now) {
  return std::max(0.0, std::round(std::chrono::duration<double>(time - now).count()));
}

}  // namespace

void Membership::set_hosts(std::vector<Host> hosts, Time now) {
  // A host that is named twice is one host with the slots of both.
  hosts_.clear();
  for (Host& host : hosts) {
    const auto same = std::ranges::find(hosts_, host.name, &Host::name);
    if (same == hosts_.end()) {
      hosts_.push_back(std::move(host));
    } else {
      same->slots += host.slots;
    }
  }
  for (const Host& host : hosts_) host_states_[host.name].is_taken_back = false;
  advance(now);
}

void Membership::set_limits(int min_ranks, int max_ranks) {
  limits_.min_ranks = min_ranks;
  limits_.max_ranks = max_ranks;
  limits_.start = std::clamp(limits_.start, min_ranks, max_ranks);
}

void Membership::ready(int id, const std::string& reason, Time now) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return;
  Worker& worker = found->second;
  const bool came_out = std::exchange(worker.phase, Phase::waiting) == Phase::member;
  worker.since = now;
  worker.was_told = false;  // it would have left
  // Others have all that there was to do behind them.
  if (finishing_) return stop(id);
  if (came_out && (world_ == World::running || (world_ == World::ending && !reason.empty()))) {
    // One member's failure is all members', also of those who were asked to come out, and do not.
    abandon(reason.empty() ? fmt::format("worker {} has come out of it", id) : reason, now);
  }
  advance(now);
}

void Membership::leaves(int id, Time now) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return;
  found->second.goes = found->second.wants_to = true;
  const bool is_over = failed_ || finishing_;
  if (is_over && found->second.phase == Phase::waiting) stop(id);
  advance(now);
}

void Membership::left(int id, Time now) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return;
  found->second.goes = found->second.wants_to = found->second.left = true;
  // As it was to.
  if (closing_ && world_ == World::running) world_ = World::ending;
  ready(id, "", now);
}

void Membership::ended(int id, Ending ending, const std::string& how, Time now) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return;
  const Worker worker = found->second;
  workers_.erase(found);
  const bool ended_well = ending == Ending::done;
  // Training has not begun for who was no member yet.
  if (ending == Ending::done && worker.phase != Phase::member)
    ending = worker.stopped ? Ending::left : Ending::failed;
  if (ending == Ending::done) {
    if (lacks_one_ && !std::exchange(finishes_without_one_, true))
      actions_.push_back(Note{
          fmt::format("worker {} on {} is done, and one of its world has failed before it was ({})",
                      id, worker.host, reason_)});
    finishing_ = true;
    for (const auto& [other, one] : workers_) {
      if (one.phase != Phase::member) stop(other);
    }
  } else if (ending != Ending::left && !worker.stopped) {
    HostState& host = host_states_[worker.host];
    if (now > host.usable_from + limits_.last_cooldown) host.failures = 0;
    // Those that are lost at once are lost once.
    if (now >= host.usable_from) {
      const auto cooldown = std::min(limits_.last_cooldown,
                                     limits_.first_cooldown * (1 << std::min(host.failures, 20)));
      ++host.failures;
      host.usable_from = now + cooldown;
    }
    const bool has_failed = ending == Ending::failed || ending == Ending::killed;
    // Before any world: what does not start at all is a mistake, which waiting does not mend.
    const bool is_mistake =
        ending == Ending::failed || (ending == Ending::killed && host.failures > kMostKills);
    if (generation_.number < 0 && is_mistake) {
      fail(fmt::format(
          "worker {} on {} {} before it was ready{}", id, worker.host, how,
          ended_well ? ": an elastic job runs sullae train, or a program that uses sullae::elastic"
                     : ""));
    } else if (worker.phase == Phase::starting && has_failed && !finishing_) {
      actions_.push_back(
          Note{fmt::format("worker {} on {} {} before it was ready; another one starts in {:g} s",
                           id, worker.host, how, seconds_until(host.usable_from, now))});
    }
  }
  if (worker.phase == Phase::member && !finishing_) {
    const auto what = fmt::format("worker {} on {} {}", id, worker.host, how);
    world_ == World::none ? note_late(what) : abandon(what, now);
    lacks_one_ = lacks_one_ || ending != Ending::left;
  }
  advance(now);
}

void Membership::lost(const std::string& host, const std::string& reason, Time now) {
  std::vector<int> ids;
  for (const auto& [id, worker] : workers_) {
    if (worker.host == host) ids.push_back(id);
  }
  for (const int id : ids) {
    const auto found = workers_.find(id);
    if (found != workers_.end()) ended(id, Ending::lost, reason, now);
  }
}

void Membership::advance(Time now) {
  wake_.reset();
  if (failed_ || finishing_) return;
  if (closing_ && world_ == World::running) return;  // its members keep what they have
  if (closing_) return form_last(now);
  release_hosts();
  release_youngest();
  start_workers(now);
  if (world_ == World::running) {
    change_running_world(now);
  } else if (has_state_for_successors()) {
    hands_over_ = true;
  }
  if (world_ == World::ending && !hands_over_) tell_who_goes_too();
  if (world_ != World::running) form(now);
}

// Workers of hosts, or slots, that are there no more.
void Membership::release_hosts() {
  for (auto& [id, worker] : workers_) {
    const auto host = std::ranges::find(hosts_, worker.host, &Host::name);
    if (host != hosts_.end() && worker.slot < host->slots) continue;
    // Who has the state may still be needed.
    if (is_of_last_world(id)) {
      worker.goes = true;
    } else {
      stop(id);
    }
  }
}

// Where fewer are wanted than there are.
void Membership::release_youngest() {
  int stay = 0;
  for (auto& [id, worker] : workers_) {
    if (worker.goes || worker.stopped || ++stay <= limits_.max_ranks) continue;
    if (worker.phase == Phase::member) {
      worker.goes = true;
    } else {
      stop(id);
    }
  }
}

void Membership::start_workers(Time now) {
  const auto alive = [&] {
    return static_cast<int>(
        std::ranges::count_if(workers_, [](const auto& one) { return !one.second.goes; }));
  };
  for (const Host& host : hosts_) {
    const HostState& state = host_states_[host.name];
    while (alive() < limits_.max_ranks) {
      const auto busy = std::ranges::count_if(
          workers_, [&](const auto& one) { return one.second.host == host.name; });
      if (busy >= host.slots) break;
      if (state.usable_from > now) {
        wake_at(state.usable_from);
        break;
      }
      start_one(host, now);
    }
  }
}

void Membership::start_one(const Host& host, Time now) {
  int slot = 0;
  const auto is_taken = [&](int wanted) {
    return std::ranges::any_of(workers_, [&](const auto& one) {
      return one.second.host == host.name && one.second.slot == wanted;
    });
  };
  while (is_taken(slot)) ++slot;
  const int id = next_worker_++;
  workers_[id] = {.host = host.name, .slot = slot, .since = now};
  actions_.push_back(Start{.worker = id, .host = host.name, .slot = slot, .slots = host.slots});
}

void Membership::form(Time now) {
  if (count(Phase::member) > 0) return wait_for_members(now);
  const auto chosen = candidates();
  const bool is_first = generation_.number < 0;
  const auto survives = [&](int id) {
    return std::ranges::find(chosen, id) != chosen.end();
  };
  if (!is_first && std::ranges::none_of(generation_.workers, survives)) {
    return close(fmt::format("no rank is left of the world that had {} ({})",
                             generation_.workers.size(), reason_),
                 now);
  }
  // Who goes has come out, and is not needed any more.
  for (const auto& [id, worker] : workers_) {
    if (worker.phase == Phase::waiting && worker.goes && !survives(id)) stop(id);
  }
  const auto first_ready = [&] {
    Time first = now;
    for (const int id : chosen) first = std::min(first, workers_.at(id).since);
    return first;
  };
  const bool may_grow = static_cast<int>(chosen.size()) < limits_.max_ranks;
  if (is_first && may_grow && count(Phase::starting) > 0 && now < first_ready() + kJoinWindow)
    return wake_at(first_ready() + kJoinWindow);
  const int wanted = is_first ? std::max(limits_.start, limits_.min_ranks) : limits_.min_ranks;
  if (static_cast<int>(chosen.size()) < wanted) {
    if (!below_) {
      below_ = now;
      if (!is_first)
        actions_.push_back(
            Note{fmt::format("{}: {} of at least {} ranks are left; waiting for others", reason_,
                             chosen.size(), limits_.min_ranks)});
    }
    int slots = 0;
    for (const Host& host : hosts_) slots += host.slots;
    if (is_first && slots > 0 && slots < wanted && !std::exchange(has_told_of_slots_, true))
      actions_.push_back(Note{fmt::format(
          "there are slots for {} of the {} ranks to begin with (-np); waiting for hosts", slots,
          wanted)});
    if (now >= *below_ + limits_.timeout)
      return close(fmt::format("only {} rank{} came within {:g} s (--elastic-timeout), expected {}",
                               chosen.size(), chosen.size() == 1 ? "" : "s",
                               std::chrono::duration<double>(limits_.timeout).count(), wanted),
                   now);
    wake_at(*below_ + limits_.timeout);
    return;
  }
  below_.reset();
  last_.reset();
  hands_over_ = false;
  if (limits_.changes >= 0 && generation_.number + 1 > limits_.changes)
    return close(fmt::format("the world has changed {} time{} (--reset-limit): {}", limits_.changes,
                             limits_.changes == 1 ? "" : "s", reason_),
                 now);
  make_world(chosen, now);
  world_ = World::running;
}

// They are on their way out: they have the state. A step may take its time; of a world that has
// failed nothing is left to be done, and where one has come out the state is safe.
void Membership::wait_for_members(Time now) {
  if (world_ != World::none || !since_) return;
  std::optional<Time> first;
  for (const auto& [id, worker] : workers_) {
    if (worker.phase == Phase::waiting && is_of_last_world(id))
      first = first ? std::min(*first, worker.since) : worker.since;
  }
  const Time end =
      first ? std::min(abandoned_ + limits_.timeout, std::max(abandoned_, *first) + limits_.others)
            : abandoned_ + limits_.timeout;
  constexpr Milliseconds kSilence{5000};
  const bool is_silence = first && now >= *first + kSilence;
  const bool tells = is_silence && !std::exchange(has_told_who_stays_, true);
  for (const auto& [id, worker] : workers_) {
    if (worker.phase != Phase::member) continue;
    if (now >= end) {
      stop(id);
    } else if (tells) {
      actions_.push_back(Note{fmt::format(
          "worker {} on {} has not come out of the world that has failed: waiting for it, {:g} s "
          "more at most",
          id, worker.host, seconds_until(end, now))});
    }
  }
  if (now >= end) return;
  wake_at(end);
  if (first && !has_told_who_stays_) wake_at(*first + kSilence);
}

void Membership::make_world(std::vector<int> workers, Time now) {
  ++generation_.number;
  lacks_one_ = false;
  generation_.workers = std::move(workers);
  for (const int id : generation_.workers) {
    Worker& worker = workers_.at(id);
    worker.phase = Phase::member;
    worker.since = now;
  }
  Form made{.generation = generation_,
            .reason = std::exchange(reason_, {}),
            .is_last = closing_.has_value()};
  if (since_) made.pause = std::chrono::duration_cast<Milliseconds>(now - *since_);
  since_.reset();
  actions_.push_back(std::move(made));
}

void Membership::abandon(const std::string& reason, Time now) {
  const bool was_ending = world_ == World::ending;
  reason_ = was_ending ? fmt::format("{}, {}", reason_, reason) : reason;
  if (!was_ending) since_ = now;
  abandoned_ = now;
  has_told_who_stays_ = false;
  actions_.push_back(Abandon{.generation = generation_, .reason = reason});
  world_ = World::none;
}

// Of a world that has failed already: what others said of it was perhaps what this end did to them.
void Membership::note_late(const std::string& what) {
  reason_ = fmt::format("{}, {}", reason_, what);
  actions_.push_back(Note{fmt::format("generation {}: {}", generation_.number, what)});
}

void Membership::fail(const std::string& reason) {
  failed_ = true;
  actions_.push_back(Fail{reason});
}

void Membership::stop(int id) {
  if (std::exchange(workers_.at(id).stopped, true)) return;
  actions_.push_back(Stop{id});
}

int Membership::count(Phase phase) const {
  return static_cast<int>(
      std::ranges::count_if(workers_, [&](const auto& one) { return one.second.phase == phase; }));
}

}  // namespace sullae::elastic

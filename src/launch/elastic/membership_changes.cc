// How a world of an elastic job gives way to the next: who is waited for, who is told to go, who is
// in it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launch/elastic/membership.h"

namespace sullae::elastic {
namespace {

// Of the time that a host has that is taken back, often half a minute.
constexpr Milliseconds kHurry{15000};

}  // namespace

bool Membership::is_of_last_world(int id) const {
  return std::ranges::find(generation_.workers, id) != generation_.workers.end();
}

// Where all members are to go, and none has to at once: whether others come, for whom to wait.
bool Membership::waits_for_successors(Time now) {
  bool some_start = false;
  bool hurries = false;
  for (const auto& [id, worker] : workers_) {
    if (worker.phase == Phase::member && (!worker.goes || worker.wants_to)) {
      last_.reset();
      return false;
    }
    if (worker.phase == Phase::waiting && !worker.goes && !worker.stopped) return true;
    some_start = some_start || (worker.phase == Phase::starting && !worker.stopped);
    hurries = hurries || (worker.phase == Phase::member && host_states_[worker.host].is_taken_back);
  }
  // A host that could not be used is tried again.
  for (const Host& host : hosts_) {
    const Time usable_from = host_states_[host.name].usable_from;
    if (host.slots < 1 || usable_from <= now) continue;
    some_start = true;
    wake_at(usable_from);
  }
  if (!last_) last_ = now;
  const auto end = *last_ + (hurries ? std::min(kHurry, limits_.timeout) : limits_.timeout);
  if (!some_start || now >= end) return false;
  wake_at(end);
  return true;
}

// Whether all who have it are to go, some of whom can still be in another world, and others come.
bool Membership::has_state_for_successors() const {
  bool some_can = false;
  bool some_come = false;
  for (const auto& [id, worker] : workers_) {
    const bool is_of_it = is_of_last_world(id);
    if (is_of_it && !worker.goes) return false;
    some_can = some_can || (is_of_it && !worker.wants_to && !worker.was_told && !worker.stopped);
    some_come = some_come || (!is_of_it && !worker.goes && !worker.stopped);
  }
  return some_can && some_come;
}

// Since the members were asked to come out.
void Membership::tell_who_goes_too() {
  std::vector<int> leaving;
  bool is_news = false;
  for (auto& [id, worker] : workers_) {
    if (worker.phase != Phase::member || !worker.goes) continue;
    leaving.push_back(id);
    is_news = is_news || !worker.was_told;
    worker.was_told = true;
  }
  if (!is_news) return;
  actions_.push_back(
      Interrupt{.generation = generation_, .leaving = std::move(leaving), .reason = reason_});
}

// Between two steps, for those who come and those who go.
void Membership::change_running_world(Time now) {
  std::vector<std::string> reasons;
  std::vector<int> leaving;
  std::optional<Time> first_ready;
  int joining = 0;
  const int members = count(Phase::member);
  const bool waits = waits_for_successors(now);
  for (const auto& [id, worker] : workers_) {
    if (worker.phase == Phase::member && worker.goes && !waits) {
      reasons.push_back(fmt::format("worker {} on {} leaves", id, worker.host));
      leaving.push_back(id);
    }
  }
  const int staying = waits ? 0 : members - static_cast<int>(leaving.size());
  for (const auto& [id, worker] : workers_) {
    if (worker.phase != Phase::waiting || worker.stopped) continue;
    first_ready = first_ready ? std::min(*first_ready, worker.since) : worker.since;
    if (staying + joining < limits_.max_ranks) ++joining;
  }
  const bool all_ready = count(Phase::starting) == 0;
  if (joining > 0 && !all_ready && now < *first_ready + kJoinWindow) {
    wake_at(*first_ready + kJoinWindow);
    joining = 0;
  }
  if (joining > 0)
    reasons.push_back(fmt::format("{} worker{} come{}", joining, joining == 1 ? "" : "s",
                                  joining == 1 ? "s" : ""));
  if (reasons.empty()) return;
  hands_over_ = waits;
  for (const int id : leaving) workers_.at(id).was_told = true;
  world_ = World::ending;
  since_ = now;
  reason_ = fmt::format("{}", fmt::join(reasons, ", "));
  actions_.push_back(
      Interrupt{.generation = generation_, .leaving = std::move(leaving), .reason = reason_});
}

void Membership::close(Time now) {
  if (generation_.number >= 0 && !failed_ && !finishing_ && !closing_) close("the job ends", now);
}

void Membership::close(const std::string& reason, Time now) {
  closing_ = reason;
  closed_ = now;
  advance(now);
}

// Whoever is in no other world, and has the state, keeps it.
void Membership::form_last(Time now) {
  const auto end = closed_ + limits_.timeout;
  if (count(Phase::member) > 0 && now < end) return wake_at(end);
  std::vector<int> chosen;
  for (const int id : generation_.workers) {
    const auto found = workers_.find(id);
    if (found == workers_.end() || found->second.phase != Phase::waiting) continue;
    if (!found->second.stopped && !found->second.left) chosen.push_back(id);
  }
  if (chosen.empty() || std::exchange(has_had_last_, true)) return fail(*closing_);
  reason_ = *closing_ + "; what they have is kept";
  make_world(std::move(chosen), now);
  world_ = World::ending;
}

// Those who can be in the next world: members of the last one first, by rank. One that is to go
// gives those who come the state.
std::vector<int> Membership::candidates() const {
  std::vector<int> chosen;
  auto most = static_cast<std::size_t>(limits_.max_ranks);
  const auto add = [&](int id, bool goes) {
    const auto found = workers_.find(id);
    if (found == workers_.end() || found->second.phase != Phase::waiting) return;
    const Worker& worker = found->second;
    if (worker.goes != goes || worker.stopped || chosen.size() >= most) return;
    if (goes && (worker.wants_to || worker.was_told)) return;
    if (std::ranges::find(chosen, id) == chosen.end()) chosen.push_back(id);
  };
  if (hands_over_) {
    const bool some_come = std::ranges::any_of(workers_, [](const auto& one) {
      return one.second.phase == Phase::waiting && !one.second.goes && !one.second.stopped;
    });
    if (some_come) most = 1;
    for (const int id : generation_.workers) add(id, /*goes=*/true);
    most = std::max(static_cast<std::size_t>(limits_.max_ranks), std::size_t{2});
  }
  for (const int id : generation_.workers) add(id, /*goes=*/false);
  for (const auto& [id, worker] : workers_) add(id, /*goes=*/false);
  return chosen;
}

}  // namespace sullae::elastic

#include "ps/server/clocks.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace sullae::ps {

std::int64_t Clocks::clock(int worker) const {
  const auto found = clocks_.find(worker);
  return found == clocks_.end() ? 0 : found->second;
}

std::int64_t Clocks::join(int worker, const std::set<int>& members) {
  auto others = members;
  others.erase(worker);
  // It takes part in the round that is open.
  std::int64_t least = has_rounds() ? round_ : 0;
  if (!has_rounds() && !others.empty()) {
    least = least_clock(others);
  } else if (!has_rounds()) {
    for (const auto& [other, clock] : clocks_) least = std::max(least, clock);
  }
  pulled_[worker] = updates_;
  return clocks_[worker] = std::max(clock(worker), least);
}

bool Clocks::advance(int worker, std::int64_t step) {
  if (clock(worker) >= step) return false;
  clocks_[worker] = step;
  // Whoever is at a step has seen the end of the round before it.
  if (has_rounds()) round_ = std::max(round_, step);
  return true;
}

std::int64_t Clocks::least_clock(const std::set<int>& members) const {
  return members.empty() ? std::numeric_limits<std::int64_t>::max() : clock(slowest(members));
}

int Clocks::slowest(const std::set<int>& members) const {
  if (members.empty()) return -1;
  return *std::ranges::min_element(members, {}, [&](int member) { return clock(member); });
}

std::uint64_t Clocks::last_taken(int worker, std::uint64_t incarnation) const {
  const auto found = taken_.find(worker);
  const bool is_its = found != taken_.end() && found->second.incarnation == incarnation;
  return is_its ? found->second.number : 0;
}

bool Clocks::has_taken(int worker, const PushId& id) const {
  return last_taken(worker, id.incarnation) >= id.number;
}

Delay Clocks::take(int worker, const PushId& id, std::int64_t step, const std::set<int>& members) {
  std::int64_t& clock = clocks_[worker];
  const std::int64_t given = std::max(clock, step);
  clock = given + 1;
  taken_[worker] = id;
  if (has_rounds()) {
    ++given_;
    givers_.insert(worker);
  }
  return {given - std::min(given, least_clock(members)), updates_ - pulled_[worker]};
}

bool Clocks::is_round_full(const std::set<int>& members) const {
  return has_rounds() && !members.empty() && least_clock(members) > round_;
}

int Clocks::end_round(const std::set<int>& members) {
  round_ = least_clock(members);
  givers_.clear();
  return std::exchange(given_, 0);
}

bool Clocks::may_go_on(int worker, const std::set<int>& members) const {
  if (staleness_ < 0 || members.empty()) return true;
  if (has_rounds()) return clock(worker) <= round_;
  return clock(worker) <= least_clock(members) + staleness_;
}

nlohmann::json Clocks::numbers() const {
  auto clocks = clocks_;
  auto taken = nlohmann::json::array();
  for (auto& [worker, clock] : clocks) {
    const bool is_in_the_round = givers_.contains(worker);
    if (is_in_the_round) clock = std::min(clock, round_);
    const auto last = taken_.find(worker);
    if (!is_in_the_round && last != taken_.end())
      taken.push_back({worker, last->second.incarnation, last->second.number});
  }
  return {{"clocks", clocks}, {"updates", updates_}, {"round", round_}, {"taken", taken}};
}

void Clocks::restore(const nlohmann::json& numbers) {
  numbers.at("clocks").get_to(clocks_);
  for (const auto& one : numbers.at("taken"))
    taken_[one.at(0).get<int>()] = {.incarnation = one.at(1).get<std::uint64_t>(),
                                    .number = one.at(2).get<std::uint64_t>()};
  numbers.at("updates").get_to(updates_);
  numbers.at("round").get_to(round_);
}

}  // namespace sullae::ps

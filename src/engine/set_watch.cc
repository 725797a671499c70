#include "engine/set_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sullae::engine {
namespace {

bool contains(const auto& range, const auto& value) {
  return std::ranges::find(range, value) != range.end();
}

}  // namespace

void SetWatch::add(const std::string& set, std::vector<int> members, GiveUp give_up) {
  const std::lock_guard lock(mutex_);
  sets_[set] = {std::move(members), std::move(give_up), {}};
}

void SetWatch::remove(const std::string& set) {
  const std::lock_guard lock(mutex_);
  const auto found = sets_.find(set);
  if (found == sets_.end()) return;
  for (const auto& name : found->second.waiting)
    changes_.push_back({set, found->second.members, name, /*ended=*/true});
  sets_.erase(found);
}

bool SetWatch::active() const {
  const std::lock_guard lock(mutex_);
  return sets_.size() > 1;
}

void SetWatch::report(const std::string& set, const std::vector<std::string>& names) {
  const std::lock_guard lock(mutex_);
  Set& own = sets_.at(set);
  for (const auto& name : own.waiting) {
    if (!contains(names, name)) changes_.push_back({set, own.members, name, /*ended=*/true});
  }
  for (const auto& name : names) {
    if (!contains(own.waiting, name)) changes_.push_back({set, own.members, name});
  }
  own.waiting = names;
}

std::vector<Waiting> SetWatch::take_changes() {
  const std::lock_guard lock(mutex_);
  return std::exchange(changes_, {});
}

void SetWatch::give_up(const std::string& set, const std::string& name, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  const auto found = sets_.find(set);
  if (found != sets_.end() && found->second.give_up) found->second.give_up(name, reason);
}

std::optional<SetConflict> SetComparison::hear(int rank, const Waiting& waiting) {
  if (waiting.ended) {
    if (const auto known = waiting_.find(waiting.name); known != waiting_.end()) {
      std::erase_if(known->second[rank],
                    [&](const Waiting& one) { return one.set == waiting.set; });
    }
    return std::nullopt;
  }
  auto& ranks = waiting_[waiting.name];
  for (const auto& [other_rank, others] : ranks) {
    for (const Waiting& other : others) {
      if (other_rank == rank || other.set == waiting.set) continue;
      // Each is missing the other.
      if (!contains(waiting.members, other_rank) || !contains(other.members, rank)) continue;
      SetConflict conflict{
          other, waiting,
          fmt::format("ranks disagree about the process set of '{}': rank {} submitted it among "
                      "ranks {{{}}}, but rank {} among ranks {{{}}}",
                      waiting.name, other_rank, fmt::join(other.members, ", "), rank,
                      fmt::join(waiting.members, ", "))};
      waiting_.erase(waiting.name);
      return conflict;
    }
  }
  ranks[rank].push_back(waiting);
  return std::nullopt;
}

}  // namespace sullae::engine

#include "engine/negotiation/failures.h"

#include <algorithm>
#include <utility>

namespace sullae::engine {

void Failures::add(const std::string& name, RankSet ranks, std::exception_ptr error,
                   bool joined_too) {
  if (!ranks.empty()) failures_[name].push_back({std::move(ranks), std::move(error), joined_too});
}

std::exception_ptr Failures::take(const std::string& name, int rank) {
  if (failures_.empty()) return nullptr;
  const auto found = failures_.find(name);
  if (found == failures_.end()) return nullptr;
  std::vector<Failure>& failures = found->second;
  const auto failure = std::ranges::find_if(
      failures, [rank](const Failure& one) { return one.ranks.contains(rank); });
  if (failure == failures.end()) return nullptr;
  std::exception_ptr error = failure->error;
  failure->ranks.erase(rank);
  if (failure->ranks.empty()) failures.erase(failure);
  if (failures.empty()) failures_.erase(found);
  return error;
}

void Failures::forgive(int rank) {
  for (auto& [name, failures] : failures_) {
    for (Failure& failure : failures) {
      if (!failure.joined_too) failure.ranks.erase(rank);
    }
    std::erase_if(failures, [](const Failure& failure) { return failure.ranks.empty(); });
  }
  std::erase_if(failures_, [](const auto& entry) { return entry.second.empty(); });
}

}  // namespace sullae::engine

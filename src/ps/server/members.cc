#include "ps/server/members.h"

namespace sullae::ps {

Members::Members(int expected, std::chrono::milliseconds lease)
    : expected_(expected), lease_(lease) {
  begin({});
}

void Members::begin(const std::set<int>& dead) {
  counted_.clear();
  for (int worker = 0; worker < expected_; ++worker) {
    if (!dead.contains(worker) && !rests(worker)) counted_.insert(worker);
  }
}

void Members::join(int worker, std::uint64_t incarnation, Clock::time_point now) {
  auto& life = living_[worker];
  if (life.incarnation != 0 && life.incarnation != incarnation)
    replaced_[worker] = life.incarnation;
  life = {incarnation, now};
  if (worker < expected_) count(worker);
}

bool Members::hear(int worker, std::uint64_t incarnation, Clock::time_point now) {
  const auto found = living_.find(worker);
  if (found == living_.end()) return false;
  const bool is_known = found->second.incarnation == incarnation;
  if (is_known || found->second.incarnation == 0) found->second.heard = now;
  return is_known;
}

bool Members::was_replaced(int worker, std::uint64_t incarnation) const {
  const auto before = replaced_.find(worker);
  return before != replaced_.end() && before->second == incarnation && living_.contains(worker);
}

bool Members::has_joined(int worker) const {
  const auto found = living_.find(worker);
  return found != living_.end() && found->second.incarnation != 0;
}

bool Members::leave(int worker, std::uint64_t incarnation) {
  const auto found = living_.find(worker);
  const bool is_another = found != living_.end() && found->second.incarnation != 0 &&
                          found->second.incarnation != incarnation;
  if (!is_another) forget(worker);
  return !is_another;
}

void Members::rest(int worker) {
  counted_.erase(worker);
  resting_.insert(worker);
}

void Members::count(int worker) {
  counted_.insert(worker);
  resting_.erase(worker);
}

void Members::forget(int worker) {
  living_.erase(worker);
  counted_.erase(worker);
  resting_.erase(worker);
}

std::set<int> Members::living() const {
  std::set<int> workers;
  for (const auto& [worker, life] : living_) workers.insert(worker);
  return workers;
}

void Members::restore(const std::set<int>& living, const std::set<int>& counted,
                      const std::set<int>& resting) {
  counted_ = counted;
  resting_ = resting;
  for (const int worker : living) living_[worker] = {};
  // Whom the server before this one expected, and this one does not.
  std::erase_if(counted_,
                [&](int worker) { return worker >= expected_ && !living.contains(worker); });
}

void Members::renew(Clock::time_point now) {
  for (auto& [worker, life] : living_) life.heard = now;
}

void Members::expect_to_hear(Clock::time_point now) {
  for (const int worker : counted_)
    living_.try_emplace(worker, Life{.incarnation = 0, .heard = now});
}

std::vector<int> Members::expire(Clock::time_point now) {
  std::vector<int> gone;
  for (const auto& [worker, life] : living_) {
    if (now - life.heard > lease_) gone.push_back(worker);
  }
  for (const int worker : gone) forget(worker);
  return gone;
}

}  // namespace sullae::ps

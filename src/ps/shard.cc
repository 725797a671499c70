#include "ps/shard.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

namespace sullae::ps {

Shard::Shard(std::vector<std::size_t> sizes, const Rule& rule, int staleness)
    : sizes_(std::move(sizes)),
      elements_(std::accumulate(sizes_.begin(), sizes_.end(), std::size_t{0})),
      rule_(rule),
      staleness_(staleness),
      present_(sizes_.size()) {
  for (const std::size_t size : sizes_) states_.push_back(initial_state(rule_, size));
}

void Shard::set_values(std::vector<float> values) {
  values_ = std::make_shared<std::vector<float>>(std::move(values));
}

std::int64_t Shard::clock(int worker) const {
  const auto found = clocks_.find(worker);
  return found == clocks_.end() ? 0 : found->second;
}

std::int64_t Shard::join(int worker, const std::set<int>& members) {
  auto others = members;
  others.erase(worker);
  // Gradients are averaged round by round: it takes part in the one that is open.
  std::int64_t least = staleness_ == 0 ? round_ : 0;
  if (staleness_ != 0 && !others.empty()) {
    least = least_clock(others);
  } else if (staleness_ != 0) {
    for (const auto& [other, clock] : clocks_) least = std::max(least, clock);
  }
  pulled_[worker] = updates_;
  return clocks_[worker] = std::max(clock(worker), least);
}

std::int64_t Shard::least_clock(const std::set<int>& members) const {
  return members.empty() ? std::numeric_limits<std::int64_t>::max() : clock(slowest(members));
}

int Shard::slowest(const std::set<int>& members) const {
  if (members.empty()) return -1;
  return *std::ranges::min_element(members, {}, [&](int member) { return clock(member); });
}

std::uint64_t Shard::last_taken(int worker, std::uint64_t incarnation) const {
  const auto found = taken_.find(worker);
  const bool is_its = found != taken_.end() && found->second.incarnation == incarnation;
  return is_its ? found->second.number : 0;
}

bool Shard::has_taken(int worker, const PushId& id) const {
  return last_taken(worker, id.incarnation) >= id.number;
}

Delay Shard::take(const Gradient& gradient, const std::set<int>& members) {
  const std::int64_t given = clocks_[gradient.worker]++;
  taken_[gradient.worker] = gradient.id;
  const Delay delay{given - std::min(given, least_clock(members)),
                    updates_ - pulled_[gradient.worker]};
  if (staleness_ == 0) {
    add(gradient);
    settle(members);
  } else {
    apply(gradient.learning_rate, gradient.values, gradient.present, 1.0F);
  }
  return delay;
}

void Shard::add(const Gradient& gradient) {
  sum_.resize(elements_);
  if (given_ == 0) std::ranges::fill(present_, std::uint8_t{0});
  std::size_t from = 0;
  for (std::size_t range = 0; range < sizes_.size(); from += sizes_[range++]) {
    if (gradient.present[range] == 0) continue;
    float* const sum = sum_.data() + from;
    const float* const own = gradient.values + from;
    if (std::exchange(present_[range], 1) == 0) {
      std::copy_n(own, sizes_[range], sum);
    } else {
      for (std::size_t i = 0; i < sizes_[range]; ++i) sum[i] += own[i];
    }
  }
  ++given_;
  learning_rate_ = gradient.learning_rate;
}

void Shard::settle(const std::set<int>& members) {
  if (staleness_ != 0 || given_ == 0 || members.empty() || least_clock(members) <= round_) return;
  apply(learning_rate_, sum_.data(), present_, 1.0F / static_cast<float>(given_));
  given_ = 0;
  ++round_;
}

void Shard::apply(double learning_rate, const float* gradient,
                  std::span<const std::uint8_t> present, float scale) {
  // Another thread may be sending them. Where it has let go, counting once more makes its reading come before this writing.
  const bool is_kept = values_.use_count() > 1;
  if (is_kept || Values(values_).use_count() > 2)
    values_ = std::make_shared<std::vector<float>>(*values_);
  std::size_t from = 0;
  for (std::size_t range = 0; range < sizes_.size(); from += sizes_[range++]) {
    if (present[range] == 0) continue;
    update(rule_, learning_rate, states_[range], values_->data() + from, gradient + from,
           sizes_[range], scale);
  }
  ++updates_;
}

nlohmann::json Shard::numbers() const {
  auto clocks = clocks_;
  auto taken = nlohmann::json::array();
  for (auto& [worker, clock] : clocks) {
    const bool is_in_the_round = staleness_ == 0 && clock > round_;
    if (is_in_the_round) clock = round_;
    const auto last = taken_.find(worker);
    if (!is_in_the_round && last != taken_.end())
      taken.push_back({worker, last->second.incarnation, last->second.number});
  }
  auto steps = nlohmann::json::array();
  for (const RuleState& state : states_) steps.push_back(state.steps);
  return {{"has_values", has_values()},
          {"clocks", clocks},
          {"updates", updates_},
          {"round", round_},
          {"steps", steps},
          {"taken", taken}};
}

void Shard::restore(const nlohmann::json& numbers) {
  if (numbers.at("has_values").get<bool>()) set_values(std::vector<float>(elements_));
  numbers.at("clocks").get_to(clocks_);
  for (const auto& one : numbers.at("taken"))
    taken_[one.at(0).get<int>()] = {.incarnation = one.at(1).get<std::uint64_t>(),
                                    .number = one.at(2).get<std::uint64_t>()};
  numbers.at("updates").get_to(updates_);
  numbers.at("round").get_to(round_);
  for (std::size_t range = 0; range < states_.size(); ++range)
    numbers.at("steps").at(range).get_to(states_[range].steps);
}

std::vector<std::span<float>> Shard::arrays() {
  if (!has_values()) return {};
  std::vector<std::span<float>> arrays{*values_};
  for (RuleState& state : states_) {
    arrays.emplace_back(state.first);
    arrays.emplace_back(state.second);
  }
  return arrays;
}

bool Shard::may_go_on(int worker, const std::set<int>& members) const {
  if (!has_values()) return false;
  if (staleness_ < 0) return true;
  if (staleness_ == 0) return clock(worker) <= round_;
  return members.empty() || clock(worker) <= least_clock(members) + staleness_;
}

}  // namespace sullae::ps

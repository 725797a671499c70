#include "ps/server/shard.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

namespace sullae::ps {

Shard::Shard(std::vector<std::size_t> sizes, const Rule& rule)
    : sizes_(std::move(sizes)),
      elements_(std::accumulate(sizes_.begin(), sizes_.end(), std::size_t{0})),
      rule_(rule),
      present_(sizes_.size()) {
  for (const std::size_t size : sizes_) states_.push_back(initial_state(rule_, size));
}

void Shard::set_values(std::vector<float> values) {
  values_ = std::make_shared<std::vector<float>>(std::move(values));
}

void Shard::add(const Gradient& gradient) {
  sum_.resize(elements_);
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
  learning_rate_ = gradient.learning_rate;
}

void Shard::apply_sum(float scale) {
  apply({.learning_rate = learning_rate_, .present = present_, .values = sum_.data()}, scale);
  std::ranges::fill(present_, std::uint8_t{0});
}

void Shard::apply(const Gradient& gradient, float scale) {
  // Another thread may be sending them. Where it has let go, counting once more makes its reading
  // come before this writing.
  const bool is_kept = values_.use_count() > 1;
  if (is_kept || Values(values_).use_count() > 2)
    values_ = std::make_shared<std::vector<float>>(*values_);
  std::size_t from = 0;
  for (std::size_t range = 0; range < sizes_.size(); from += sizes_[range++]) {
    if (gradient.present[range] == 0) continue;
    update(rule_, gradient.learning_rate, states_[range], values_->data() + from,
           gradient.values + from, sizes_[range], scale);
  }
}

nlohmann::json Shard::numbers() const {
  auto steps = nlohmann::json::array();
  for (const RuleState& state : states_) steps.push_back(state.steps);
  return {{"has_values", has_values()}, {"steps", steps}};
}

void Shard::restore(const nlohmann::json& numbers) {
  if (numbers.at("has_values").get<bool>()) set_values(std::vector<float>(elements_));
  for (std::size_t range = 0; range < states_.size(); ++range)
    numbers.at("steps").at(range).get_to(states_[range].steps);
}

std::vector<std::span<std::byte>> Shard::arrays() {
  if (!has_values()) return {};
  std::vector<std::span<std::byte>> arrays{std::as_writable_bytes(std::span(*values_))};
  for (RuleState& state : states_) {
    arrays.push_back(std::as_writable_bytes(std::span(state.first)));
    arrays.push_back(std::as_writable_bytes(std::span(state.second)));
  }
  return arrays;
}

}  // namespace sullae::ps

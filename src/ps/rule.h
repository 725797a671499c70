// How servers update what they hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace sullae::ps {

/// libtorch's optimizers, with its names and defaults.
struct Rule {
  enum class Kind { sgd, adagrad, adam, adamw };

  Kind kind = Kind::sgd;
  double weight_decay = 0;
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double learning_rate_decay = 0;
  double initial_accumulator = 0;

  bool operator==(const Rule&) const = default;
};

nlohmann::json to_json(const Rule& rule);
/// Throws nlohmann::json::exception, or InputError for a kind that is none.
Rule rule_of(const nlohmann::json& json);

/// What a rule keeps of one tensor, or of a part of it.
struct RuleState {
  std::int64_t steps = 0;
  std::vector<float> first;   // momentum, the sum of squares, or Adam's first moment
  std::vector<float> second;  // Adam's second
};

RuleState initial_state(const Rule& rule, std::size_t elements);

/// As they travel.
std::vector<std::byte> pack(std::span<const RuleState> states);
/// Into states of the same numbers of elements; false, and nothing is changed, where `bytes` are of others.
bool unpack(std::span<const std::byte> bytes, std::span<RuleState> states);

/// One step of `elements` values, whose gradient is `scale * gradient`.
void update(const Rule& rule, double learning_rate, RuleState& state, float* values,
            const float* gradient, std::size_t elements, float scale);

}  // namespace sullae::ps

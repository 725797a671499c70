// How servers update what they hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
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

/// How many of RuleState's arrays a rule has.
std::size_t arrays_of(const Rule& rule);
RuleState initial_state(const Rule& rule, std::size_t elements);

/// As they travel.
std::vector<std::byte> pack(std::span<const RuleState> states);
/// Into states of the same numbers of elements; false, and nothing is changed, where `bytes` are of
/// others.
bool unpack(std::span<const std::byte> bytes, std::span<RuleState> states);

/// One step of a rule: the one of this number, from 1.
class RuleStep {
 public:
  RuleStep(const Rule& rule, double learning_rate, std::int64_t number);

  struct Place {
    float* values = nullptr;
    float* first = nullptr;  // as of RuleState, null where the rule keeps none
    float* second = nullptr;
  };
  /// To `elements` values, whose gradient is `scale * gradient`.
  void apply(const Place& at, const float* gradient, std::size_t elements, float scale) const;

 private:
  void sgd(const Place& at, const float* gradient, std::size_t elements, float scale) const;
  void adagrad(const Place& at, const float* gradient, std::size_t elements, float scale) const;
  void adam(const Place& at, const float* gradient, std::size_t elements, float scale) const;

  Rule rule_;
  std::int64_t number_;
  float rate_ = 0;
  float decay_ = 0;  // of weights, by the gradient
  float kept_ = 1;   // of weights, by themselves
  float root_ = 1;   // Adam's correction of the second moment's root
};

/// The next step of a state.
void update(const Rule& rule, double learning_rate, RuleState& state, float* values,
            const float* gradient, std::size_t elements, float scale);

}  // namespace sullae::ps

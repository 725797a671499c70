#include "ps/rule.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/copy.h"
#include "sullae/error.h"

namespace sullae::ps {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<Rule::Kind, std::string_view>, 4> kKinds{
    {{Rule::Kind::sgd, "sgd"},
     {Rule::Kind::adagrad, "adagrad"},
     {Rule::Kind::adam, "adam"},
     {Rule::Kind::adamw, "adamw"}}};

}  // namespace

json to_json(const Rule& rule) {
  std::string_view name;
  for (const auto& [kind, text] : kKinds) {
    if (kind == rule.kind) name = text;
  }
  return {{"kind", name},
          {"weight_decay", rule.weight_decay},
          {"momentum", rule.momentum},
          {"dampening", rule.dampening},
          {"nesterov", rule.nesterov},
          {"beta1", rule.beta1},
          {"beta2", rule.beta2},
          {"eps", rule.eps},
          {"lr_decay", rule.learning_rate_decay},
          {"initial_accumulator_value", rule.initial_accumulator}};
}

Rule rule_of(const json& json) {
  Rule rule;
  const auto name = json.at("kind").get<std::string>();
  bool known = false;
  for (const auto& [kind, text] : kKinds) {
    if (text != name) continue;
    rule.kind = kind;
    known = true;
  }
  if (!known) throw InputError(fmt::format("parameter servers have no optimizer '{}'", name));
  json.at("weight_decay").get_to(rule.weight_decay);
  json.at("momentum").get_to(rule.momentum);
  json.at("dampening").get_to(rule.dampening);
  json.at("nesterov").get_to(rule.nesterov);
  json.at("beta1").get_to(rule.beta1);
  json.at("beta2").get_to(rule.beta2);
  json.at("eps").get_to(rule.eps);
  json.at("lr_decay").get_to(rule.learning_rate_decay);
  json.at("initial_accumulator_value").get_to(rule.initial_accumulator);
  return rule;
}

std::size_t arrays_of(const Rule& rule) {
  switch (rule.kind) {
    case Rule::Kind::sgd:
      return rule.momentum == 0 ? 0 : 1;
    case Rule::Kind::adagrad:
      return 1;
    case Rule::Kind::adam:
    case Rule::Kind::adamw:
      break;
  }
  return 2;
}

RuleState initial_state(const Rule& rule, std::size_t elements) {
  RuleState state;
  const bool is_adagrad = rule.kind == Rule::Kind::adagrad;
  if (arrays_of(rule) > 0)
    state.first.assign(elements, is_adagrad ? static_cast<float>(rule.initial_accumulator) : 0.0F);
  if (arrays_of(rule) > 1) state.second.assign(elements, 0.0F);
  return state;
}

std::vector<std::byte> pack(std::span<const RuleState> states) {
  std::vector<std::byte> bytes;
  const auto add = [&](const void* from, std::size_t count) {
    const auto* const begin = static_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), begin, begin + count);
  };
  for (const RuleState& state : states) {
    add(&state.steps, sizeof state.steps);
    add(state.first.data(), state.first.size() * sizeof(float));
    add(state.second.data(), state.second.size() * sizeof(float));
  }
  return bytes;
}

bool unpack(std::span<const std::byte> bytes, std::span<RuleState> states) {
  std::size_t expected = 0;
  for (const RuleState& state : states)
    expected += sizeof state.steps + (state.first.size() + state.second.size()) * sizeof(float);
  if (bytes.size() != expected) return false;
  const std::byte* from = bytes.data();
  const auto take = [&](void* to, std::size_t count) {
    copy_bytes(to, from, count);
    from += count;
  };
  for (RuleState& state : states) {
    take(&state.steps, sizeof state.steps);
    take(state.first.data(), state.first.size() * sizeof(float));
    take(state.second.data(), state.second.size() * sizeof(float));
  }
  return true;
}

RuleStep::RuleStep(const Rule& rule, double learning_rate, std::int64_t number)
    : rule_(rule), number_(number), decay_(static_cast<float>(rule.weight_decay)) {
  const auto steps = static_cast<double>(number);
  double rate = learning_rate;
  if (rule.kind == Rule::Kind::adagrad) rate /= 1 + (steps - 1) * rule.learning_rate_decay;
  if (rule.kind == Rule::Kind::adam || rule.kind == Rule::Kind::adamw) {
    rate /= 1 - std::pow(rule.beta1, steps);
    root_ = static_cast<float>(1 / std::sqrt(1 - std::pow(rule.beta2, steps)));
  }
  if (rule.kind == Rule::Kind::adamw) {
    kept_ = static_cast<float>(1 - learning_rate * rule.weight_decay);
    decay_ = 0;
  }
  rate_ = static_cast<float>(rate);
}

void RuleStep::apply(const Place& at, const float* gradient, std::size_t elements,
                     float scale) const {
  switch (rule_.kind) {
    case Rule::Kind::sgd:
      return sgd(at, gradient, elements, scale);
    case Rule::Kind::adagrad:
      return adagrad(at, gradient, elements, scale);
    case Rule::Kind::adam:
    case Rule::Kind::adamw:
      return adam(at, gradient, elements, scale);
  }
}

void RuleStep::sgd(const Place& at, const float* gradient, std::size_t elements,
                   float scale) const {
  const float rate = rate_;
  const float decay = decay_;
  float* const values = at.values;
  if (rule_.momentum == 0) {
    for (std::size_t i = 0; i < elements; ++i)
      values[i] -= rate * (gradient[i] * scale + decay * values[i]);
    return;
  }
  // The first gradient is the momentum, undampened.
  const float keep = number_ == 1 ? 0.0F : static_cast<float>(rule_.momentum);
  const float take = number_ == 1 ? 1.0F : static_cast<float>(1 - rule_.dampening);
  const auto ahead = rule_.nesterov ? static_cast<float>(rule_.momentum) : 1.0F;
  const float own = rule_.nesterov ? 1.0F : 0.0F;
  float* const momentum = at.first;
  for (std::size_t i = 0; i < elements; ++i) {
    const float slope = gradient[i] * scale + decay * values[i];
    momentum[i] = keep * momentum[i] + take * slope;
    values[i] -= rate * (own * slope + ahead * momentum[i]);
  }
}

void RuleStep::adagrad(const Place& at, const float* gradient, std::size_t elements,
                       float scale) const {
  const float rate = rate_;
  const float decay = decay_;
  const auto eps = static_cast<float>(rule_.eps);
  float* const values = at.values;
  float* const sum = at.first;
  for (std::size_t i = 0; i < elements; ++i) {
    const float slope = gradient[i] * scale + decay * values[i];
    sum[i] += slope * slope;
    values[i] -= rate * slope / (std::sqrt(sum[i]) + eps);
  }
}

void RuleStep::adam(const Place& at, const float* gradient, std::size_t elements,
                    float scale) const {
  const auto beta1 = static_cast<float>(rule_.beta1);
  const auto beta2 = static_cast<float>(rule_.beta2);
  const auto rest1 = static_cast<float>(1 - rule_.beta1);
  const auto rest2 = static_cast<float>(1 - rule_.beta2);
  const auto eps = static_cast<float>(rule_.eps);
  const float rate = rate_;
  const float decay = decay_;
  const float kept = kept_;
  const float root = root_;
  float* const values = at.values;
  float* const first = at.first;
  float* const second = at.second;
  for (std::size_t i = 0; i < elements; ++i) {
    const float value = values[i] * kept;
    const float slope = gradient[i] * scale + decay * value;
    first[i] = beta1 * first[i] + rest1 * slope;
    second[i] = beta2 * second[i] + rest2 * slope * slope;
    values[i] = value - rate * first[i] / (std::sqrt(second[i]) * root + eps);
  }
}

void update(const Rule& rule, double learning_rate, RuleState& state, float* values,
            const float* gradient, std::size_t elements, float scale) {
  RuleStep(rule, learning_rate, ++state.steps)
      .apply({values, state.first.data(), state.second.data()}, gradient, elements, scale);
}

}  // namespace sullae::ps

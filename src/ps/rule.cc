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

struct Step {
  float* values;
  const float* gradient;
  std::size_t elements;
  float scale;
};

void sgd(const Rule& rule, float rate, RuleState& state, const Step& step) {
  const auto decay = static_cast<float>(rule.weight_decay);
  if (rule.momentum == 0) {
    for (std::size_t i = 0; i < step.elements; ++i)
      step.values[i] -= rate * (step.gradient[i] * step.scale + decay * step.values[i]);
    return;
  }
  // The first gradient is the momentum, undampened.
  const float keep = state.steps == 1 ? 0.0F : static_cast<float>(rule.momentum);
  const float take = state.steps == 1 ? 1.0F : static_cast<float>(1 - rule.dampening);
  const auto ahead = rule.nesterov ? static_cast<float>(rule.momentum) : 1.0F;
  const float own = rule.nesterov ? 1.0F : 0.0F;
  float* const momentum = state.first.data();
  for (std::size_t i = 0; i < step.elements; ++i) {
    const float gradient = step.gradient[i] * step.scale + decay * step.values[i];
    momentum[i] = keep * momentum[i] + take * gradient;
    step.values[i] -= rate * (own * gradient + ahead * momentum[i]);
  }
}

void adagrad(const Rule& rule, double learning_rate, RuleState& state, const Step& step) {
  const auto decay = static_cast<float>(rule.weight_decay);
  const auto eps = static_cast<float>(rule.eps);
  const auto rate = static_cast<float>(
      learning_rate / (1 + static_cast<double>(state.steps - 1) * rule.learning_rate_decay));
  float* const sum = state.first.data();
  for (std::size_t i = 0; i < step.elements; ++i) {
    const float gradient = step.gradient[i] * step.scale + decay * step.values[i];
    sum[i] += gradient * gradient;
    step.values[i] -= rate * gradient / (std::sqrt(sum[i]) + eps);
  }
}

void adam(const Rule& rule, double learning_rate, RuleState& state, const Step& step) {
  const bool decoupled = rule.kind == Rule::Kind::adamw;
  const auto decay = static_cast<float>(decoupled ? 0 : rule.weight_decay);
  const auto kept = static_cast<float>(decoupled ? 1 - learning_rate * rule.weight_decay : 1);
  const auto steps = static_cast<double>(state.steps);
  const auto beta1 = static_cast<float>(rule.beta1);
  const auto beta2 = static_cast<float>(rule.beta2);
  const auto rest1 = static_cast<float>(1 - rule.beta1);
  const auto rest2 = static_cast<float>(1 - rule.beta2);
  const auto root = static_cast<float>(1 / std::sqrt(1 - std::pow(rule.beta2, steps)));
  const auto rate = static_cast<float>(learning_rate / (1 - std::pow(rule.beta1, steps)));
  const auto eps = static_cast<float>(rule.eps);
  float* const first = state.first.data();
  float* const second = state.second.data();
  for (std::size_t i = 0; i < step.elements; ++i) {
    const float value = step.values[i] * kept;
    const float gradient = step.gradient[i] * step.scale + decay * value;
    first[i] = beta1 * first[i] + rest1 * gradient;
    second[i] = beta2 * second[i] + rest2 * gradient * gradient;
    step.values[i] = value - rate * first[i] / (std::sqrt(second[i]) * root + eps);
  }
}

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

RuleState initial_state(const Rule& rule, std::size_t elements) {
  RuleState state;
  const bool is_sgd = rule.kind == Rule::Kind::sgd;
  const bool is_adagrad = rule.kind == Rule::Kind::adagrad;
  if (!is_sgd || rule.momentum != 0)
    state.first.assign(elements, is_adagrad ? static_cast<float>(rule.initial_accumulator) : 0.0F);
  if (!is_sgd && !is_adagrad) state.second.assign(elements, 0.0F);
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

void update(const Rule& rule, double learning_rate, RuleState& state, float* values,
            const float* gradient, std::size_t elements, float scale) {
  ++state.steps;
  const Step step{values, gradient, elements, scale};
  switch (rule.kind) {
    case Rule::Kind::sgd:
      return sgd(rule, static_cast<float>(learning_rate), state, step);
    case Rule::Kind::adagrad:
      return adagrad(rule, learning_rate, state, step);
    case Rule::Kind::adam:
    case Rule::Kind::adamw:
      return adam(rule, learning_rate, state, step);
  }
}

}  // namespace sullae::ps

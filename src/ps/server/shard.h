// One slice as its server holds it.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "ps/rule.h"

namespace sullae::ps {

/// Values and the rule's state, and the sum of the gradients that are to be applied as one. Used by
/// one thread.
class Shard {
 public:
  /// Of ranges of so many elements, each of which may lack a gradient.
  Shard(std::vector<std::size_t> sizes, const Rule& rule);

  const std::vector<std::size_t>& sizes() const { return sizes_; }
  std::size_t elements() const { return elements_; }
  using Values = std::shared_ptr<std::vector<float>>;

  bool has_values() const { return values_ != nullptr; }
  void set_values(std::vector<float> values);
  /// As they are now: whoever keeps them keeps these, and what changes is a copy.
  const Values& values() const { return values_; }
  /// By range.
  std::span<RuleState> states() { return states_; }

  struct Gradient {
    double learning_rate = 0;
    std::span<const std::uint8_t> present;  // by range
    const float* values = nullptr;          // of all ranges
  };
  void apply(const Gradient& gradient, float scale = 1);
  /// To be applied with others.
  void add(const Gradient& gradient);
  void apply_sum(float scale);

  /// For a file: all but the arrays.
  nlohmann::json numbers() const;
  /// Takes what numbers() gave, after which arrays() are to be filled. Throws
  /// nlohmann::json::exception.
  void restore(const nlohmann::json& numbers);
  /// Values and the rule's state; of a shard without values none.
  std::vector<std::span<std::byte>> arrays();

 private:
  std::vector<std::size_t> sizes_;
  std::size_t elements_ = 0;
  Rule rule_;
  Values values_;
  std::vector<RuleState> states_;  // by range

  std::vector<float> sum_;
  std::vector<std::uint8_t> present_;  // in it
  double learning_rate_ = 0;           // of it
};

}  // namespace sullae::ps

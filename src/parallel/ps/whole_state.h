// What libtorch's optimizers keep of a tensor, and servers in parts.
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "ps/placement.h"
#include "ps/rule.h"

namespace sullae::ps {

class WholeState {
 public:
  WholeState(Rule::Kind kind, RuleState empty) : kind_(kind), state_(std::move(empty)) {}

  /// A part's.
  void put(const Range& range, const RuleState& part);
  void get(const Range& range, RuleState& part) const;
  /// To and from the optimizer's state of `parameter`, which is none before its first step.
  void give(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter) const;
  void take(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter);

 private:
  Rule::Kind kind_;
  RuleState state_;
};

}  // namespace sullae::ps

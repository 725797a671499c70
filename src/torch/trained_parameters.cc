#include "torch/trained_parameters.h"

#include <fmt/format.h>

#include <set>

#include "torch/gradient_hooks.h"
#include "torch/tensor_type.h"

namespace sullae {

torch::OrderedDict<std::string, torch::Tensor> each_once(
    const torch::OrderedDict<std::string, torch::Tensor>& parameters) {
  torch::OrderedDict<std::string, torch::Tensor> once;
  std::set<const void*> seen;
  for (const auto& item : parameters) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second)
      once.insert(item.key(), item.value());
  }
  return once;
}

TrainedParameters trained_of(const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                             const std::string& who) {
  TrainedParameters found;
  std::set<const void*> seen;  // weights that modules share are one parameter under several names
  for (const auto& item : parameters) {
    PlannedParameter parameter{.name = item.key(), .tensor = item.value()};
    if (!item.value().requires_grad()) {
      found.frozen.push_back(std::move(parameter));
      continue;
    }
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    data_type(item.value().scalar_type(), fmt::format("parameter '{}'", item.key()));
    if (!item.value().is_contiguous() && item.value().is_non_overlapping_and_dense())
      parameter.strides = item.value().strides().vec();
    found.trained.push_back(std::move(parameter));
  }
  for (const PlannedParameter& parameter : found.trained) {
    if (!has_listener(parameter.tensor)) continue;
    throw InputError(fmt::format(
        "{}: parameter '{}' belongs to another DistributedOptimizer or ShardedOptimizer, and its "
        "gradient can be reduced by one alone: put the parameters of both into one optimizer, as "
        "groups, or let go of that one first, and of what holds it (schedulers)",
        who, parameter.name));
  }
  return found;
}

void check_still_frozen(const std::vector<PlannedParameter>& frozen, const std::string& who) {
  for (const PlannedParameter& parameter : frozen) {
    if (!parameter.tensor.requires_grad() || !parameter.tensor.grad().defined()) continue;
    throw InputError(fmt::format(
        "{}: parameter '{}' required no gradient when this was made, and its gradient is reduced "
        "by nobody: make it after the last requires_grad_()",
        who, parameter.name));
  }
}

}  // namespace sullae

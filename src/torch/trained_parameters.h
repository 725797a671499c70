// The parameters whose gradients are reduced.
#pragma once

#include <torch/ordered_dict.h>

#include <string>
#include <vector>

#include "torch/bucket_plan.h"

namespace sullae {

struct TrainedParameters {
  std::vector<PlannedParameter>
      trained;  ///< that require gradients; each once, also where modules share it
  std::vector<PlannedParameter> frozen;
};

/// Each parameter once, by the first of its names: libtorch lists one that modules share under all.
torch::OrderedDict<std::string, torch::Tensor> each_once(
    const torch::OrderedDict<std::string, torch::Tensor>& parameters);

/// Throws InputError for a parameter of an element type that cannot be reduced, and for one whose
/// gradient somebody else reduces. `who` begins messages: "DistributedOptimizer".
TrainedParameters trained_of(const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                             const std::string& who);

/// Throws InputError for one of `frozen` that has come to be trained: nobody reduces its gradient,
/// and ranks would drift apart.
void check_still_frozen(const std::vector<PlannedParameter>& frozen, const std::string& who);

}  // namespace sullae

#include "train/task.h"

#include <fmt/format.h>
#include <torch/torch.h>

namespace sullae::train {

Batch Batch::to(const torch::Device& device, torch::ScalarType type) const {
  Batch moved;
  for (const auto& input : inputs) {
    const auto target = input.is_floating_point() ? type : input.scalar_type();
    moved.inputs.push_back(input.to(device, target, /*non_blocking=*/true));
  }
  moved.labels = labels.to(device, /*non_blocking=*/true);
  return moved;
}

Refinement Recipe::refine(const ModelDescription&, const TrainOptions&,
                          const std::vector<AddedSample>&, World&) const {
  throw InputError(fmt::format(
      "models of the recipe {} are not trained further: so far those for texts are", name()));
}

}  // namespace sullae::train

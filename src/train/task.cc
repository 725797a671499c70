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

std::int64_t label_of(const AddedSample& sample, const ModelDescription& description) {
  const auto label = description.class_number(sample.label);
  if (!label)
    throw InputError(
        fmt::format("a sample has the label '{}', which the model does not know", sample.label));
  return *label;
}

void check_label(std::int64_t label, std::int64_t classes, const std::string& place) {
  if (label < 0 || label >= classes)
    throw InputError(
        fmt::format("{}: has a label {}, and the model has {} classes", place, label, classes));
}

Refinement Recipe::refine(const ModelDescription&, const TrainOptions&,
                          const std::vector<AddedSample>&, const World&) const {
  throw InputError(fmt::format("models of the recipe {} are not trained further", name()));
}

}  // namespace sullae::train

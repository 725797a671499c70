#include "train/model_units.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <memory>
#include <set>
#include <string>

#include "sullae/error.h"
#include "sullae/torch.h"

namespace sullae::train {
namespace {

std::set<std::string> names_of(const ShardedUnits& units) {
  const auto names = units.parameter_names();
  return {names.begin(), names.end()};
}

}  // namespace

ShardedUnits* units_of(torch::nn::Module& model) {
  auto* const has_units = dynamic_cast<HasUnits*>(&model);
  return has_units == nullptr ? nullptr : has_units->units();
}

Units make_units(const TrainOptions& options, const World& world) {
  return options.shard == "parameters" ? std::make_shared<ShardedUnits>(world) : nullptr;
}

void check_units(const torch::nn::Module& model, const ShardedUnits& units, const World& world) {
  if (units.world() != world || units.has_replicas())
    throw InputError(
        "--shard parameters: the model's units are divided among other ranks than those that train "
        "it: expected ShardedUnits of their world, without replicas");
  const auto divided = names_of(units);
  for (const auto& item : model.named_parameters()) {
    if (item.value().requires_grad() && !divided.contains(item.key()))
      throw InputError(fmt::format(
          "--shard parameters: parameter '{}' is of no unit, and nobody would train it: "
          "expected it in one, by that name, or without a gradient",
          item.key()));
  }
}

void broadcast_beside_units(torch::nn::Module& model, const ShardedUnits& units,
                            const World& world) {
  const torch::NoGradGuard guard;
  const auto divided = names_of(units);
  for (const auto& item : model.named_parameters()) {
    torch::Tensor values = item.value().detach();
    if (!divided.contains(item.key())) broadcast(values, 0, world);
  }
  for (torch::Tensor buffer : model.buffers()) broadcast(buffer, 0, world);
}

}  // namespace sullae::train

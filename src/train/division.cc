#include "train/division.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "sullae/error.h"
#include "sullae/parallel/tensor_parallel.h"
#include "sullae/torch.h"

namespace sullae::train {
namespace {

std::set<std::string> names_of(const ShardedUnits& units) {
  const auto names = units.parameter_names();
  return {names.begin(), names.end()};
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

void check_parts(const torch::nn::Module& model, const TrainOptions& options, const Ranks& ranks) {
  if (is_in_parts(model) && !ranks.tensor)
    throw InputError(
        "the model's layers are in parts (sullae::TensorParallelLayer), whose ranks have the same "
        "samples: expected --mesh tp=N, of as many ranks");
  if (!ranks.tensor) return;
  const std::string mesh = fmt::format("--mesh {}: ", options.mesh);
  if (!is_in_parts(model))
    throw InputError(
        mesh +
        "the model has no layers in parts (sullae::TensorParallelLayer), as those of the recipes "
        "transformer and gpt have");
  const auto world = *world_of_parts(model);
  if (world.size() != ranks.tensor->size() || world.rank() != ranks.tensor->rank())
    throw InputError(
        fmt::format("{}the model's layers are in {} parts, of which this rank has "
                    "number {}: expected {} and {}",
                    mesh, world.size(), world.rank(), ranks.tensor->size(), ranks.tensor->rank()));
}

// Buffers, and parameters that are not called `divided`.
void broadcast_beside(torch::nn::Module& model, const std::set<std::string>& divided,
                      const World& world) {
  const torch::NoGradGuard guard;
  for (const auto& item : model.named_parameters()) {
    torch::Tensor values = item.value().detach();
    if (!divided.contains(item.key())) broadcast(values, 0, world);
  }
  for (torch::Tensor buffer : model.buffers()) broadcast(buffer, 0, world);
}

}  // namespace

ShardedUnits* units_of(torch::nn::Module& model) {
  auto* const has_units = dynamic_cast<HasUnits*>(&model);
  return has_units == nullptr ? nullptr : has_units->units();
}

Division make_division(const TrainOptions& options, const World& world) {
  Division division;
  if (options.shard == "parameters") division.units = std::make_shared<ShardedUnits>(world);
  if (!options.mesh.empty()) division.tensor = Ranks(options, world).tensor;
  return division;
}

bool is_in_parts(const torch::nn::Module& model) {
  const auto world = world_of_parts(model);
  return world && world->size() > 1;
}

void check_division(torch::nn::Module& model, const TrainOptions& options, const Ranks& ranks) {
  if (const ShardedUnits* const units = units_of(model)) check_units(model, *units, ranks.data);
  check_parts(model, options, ranks);
}

void start_equal(torch::nn::Module& model, const Ranks& ranks) {
  // Units are equal as they are.
  if (const ShardedUnits* const units = units_of(model))
    return broadcast_beside(model, names_of(*units), ranks.data);
  if (ranks.tensor) {
    std::set<std::string> divided;
    for (const auto& [name, part] : parts_of(model)) divided.insert(name);
    broadcast_beside(model, divided, *ranks.tensor);
  }
  broadcast_parameters(model, 0, ranks.data);
}

}  // namespace sullae::train

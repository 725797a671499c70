#include "train/division.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "parallel/agreement.h"
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

// Numbers that `world`'s ranks have among all.
std::vector<std::int64_t> members_of(const World& world, const Ranks& ranks) {
  const std::int64_t own = ranks.all.rank();
  std::vector<std::int64_t> members(static_cast<std::size_t>(world.size()));
  world.allgather(&own, members.data(), 1, DataType::int64);
  return members;
}

// What is wrong on this rank; empty for nothing.
std::string wrong_with_parts(const torch::nn::Module& model, const TrainOptions& options,
                             const Ranks& ranks) {
  if (!ranks.tensor)
    return is_in_parts(model) ? "the model's layers are in parts (sullae::TensorParallelLayer), "
                                "whose ranks have the same samples: expected --mesh tp=N, of as "
                                "many ranks"
                              : "";
  const std::string mesh = fmt::format("--mesh {}: ", options.mesh);
  if (!is_in_parts(model))
    return mesh +
           "the model has no layers in parts (sullae::TensorParallelLayer), as those of the "
           "recipes transformer and gpt have";
  const auto found = members_of(*world_of_parts(model), ranks);
  const auto expected = members_of(*ranks.tensor, ranks);
  if (found == expected) return {};
  return fmt::format("{}the model's layers are in parts on ranks {}: expected them on {}", mesh,
                     fmt::join(found, ", "), fmt::join(expected, ", "));
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
  for (const std::string& wrong :
       texts_of_all(ranks.all, wrong_with_parts(model, options, ranks))) {
    if (!wrong.empty()) throw InputError(wrong);
  }
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

#include "train/division.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "parallel/tensor/parts.h"
#include "sullae/error.h"
#include "sullae/parallel/tensor_parallel.h"
#include "sullae/torch.h"
#include "torch/agreement.h"
#include "train/device.h"
#include "train/loss_scale.h"
#include "train/tied_parameters.h"

namespace sullae::train {
namespace {

std::set<std::string> names_of(const ShardedUnits& units) {
  const auto names = units.parameter_names();
  return {names.begin(), names.end()};
}

void check_units(const torch::nn::Module& model, const ShardedUnits& units,
                 const TrainOptions& options) {
  if (units.options().type != low_precision(options))
    throw InputError(
        fmt::format("--precision {}: the model's units compute in another type: expected "
                    "ShardedUnitsOptions::type to say {}",
                    options.precision, low_precision(options) ? "the same" : "none"));
  const auto divided = names_of(units);
  for (const auto& item : model.named_parameters()) {
    if (item.value().requires_grad() && !divided.contains(item.key()))
      throw InputError(fmt::format(
          "--shard parameters: parameter '{}' is of no unit, and nobody would train it: "
          "expected it in one, by that name, or without a gradient",
          item.key()));
  }
}

// Which may be so on this rank alone; empty for nothing.
std::string wrong_device_of(torch::nn::Module& model, const ShardedUnits& units,
                            const TrainOptions& options, const World& world) {
  const auto device = device_of(options, local_device(world), model);
  if (units.device() == device) return {};
  return fmt::format(
      "--device {}: the model's units are on {} on rank {}: expected their modules on {} before "
      "ShardedUnits::shard()",
      options.device, units.device().str(), world.rank(), device.str());
}

// Numbers that `world`'s ranks have among all.
std::vector<std::int64_t> members_of(const World& world, const Ranks& ranks) {
  const std::int64_t own = ranks.all.rank();
  std::vector<std::int64_t> members(static_cast<std::size_t>(world.size()));
  world.allgather(&own, members.data(), 1, DataType::int64);
  return members;
}

// What is wrong with the ranks that have the units' parts; empty for nothing. Collective over them,
// and over those that the options say.
std::string wrong_ranks_of(const ShardedUnits& units, const TrainOptions& options,
                           const Ranks& ranks) {
  const auto wanted = members_of(ranks.units.value_or(ranks.data), ranks);
  const auto there = members_of(units.world(), ranks);
  const bool has_replicas = ranks.replicas && ranks.replicas->size() > 1;
  if (there == wanted && units.has_replicas() == has_replicas) return {};
  return fmt::format(
      "--shard parameters{}: the model's units are divided among ranks {}{}: expected ranks {}{}",
      options.mesh.empty() ? "" : " --mesh " + options.mesh, fmt::join(there, ", "),
      units.has_replicas() ? ", with replicas" : "", fmt::join(wanted, ", "),
      has_replicas ? ", with replicas" : "");
}

// Where a model has what `mesh` does not say, or the other way.
struct Kind {
  const char* where;
  const char* flag;
  const char* name;
};
constexpr Kind kParts{
    .where = "in parts", .flag = "tp", .name = "layers in parts (sullae::TensorParallelLayer)"};
constexpr Kind kStages{
    .where = "in stages", .flag = "pp", .name = "stages (sullae::train::HasStages)"};

// What is wrong on this rank; empty for nothing. `found`: those that have the model's, and
// `expected` what the options say. Collective over both.
std::string wrong_ranks_of(const Kind& kind, const std::optional<World>& found,
                           const std::optional<World>& expected, const TrainOptions& options,
                           const Ranks& ranks) {
  if (!expected)
    return found ? fmt::format(
                       "the model has {}, whose ranks have the same samples: expected "
                       "--mesh {}=N, of as many ranks",
                       kind.name, kind.flag)
                 : "";
  const std::string mesh = fmt::format("--mesh {}: ", options.mesh);
  const auto wanted = members_of(*expected, ranks);  // also where others have what this rank lacks
  if (!found)
    return fmt::format("{}the model has no {}, as those of the recipes transformer and gpt have",
                       mesh, kind.name);
  const auto there = members_of(*found, ranks);
  if (there == wanted) return {};
  return fmt::format("{}the model's layers are {} on ranks {}: expected them on {}", mesh,
                     kind.where, fmt::join(there, ", "), fmt::join(wanted, ", "));
}

std::optional<World> ranks_of_parts(const torch::nn::Module& model) {
  const auto world = world_of_parts(model);
  return world && world->size() > 1 ? world : std::nullopt;
}

std::optional<World> ranks_of_stages(torch::nn::Module& model) {
  const HasStages* const stages = stages_of(model);
  return stages == nullptr ? std::nullopt : std::optional(*stages->stages());
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

HasStages* stages_of(torch::nn::Module& model) {
  auto* const has_stages = dynamic_cast<HasStages*>(&model);
  const World* const world = has_stages == nullptr ? nullptr : has_stages->stages();
  return world == nullptr || world->size() == 1 ? nullptr : has_stages;
}

Division make_division(const TrainOptions& options, const World& world) {
  Division division;
  if (options.shard != "parameters" && !divides_model(options)) return division;
  const Ranks ranks(options, world);
  if (options.shard == "parameters") {
    const ShardedUnitsOptions how{.type = low_precision(options)};
    division.units = ranks.units
                         ? std::make_shared<ShardedUnits>(*ranks.units, *ranks.replicas, how)
                         : std::make_shared<ShardedUnits>(ranks.data, how);
    division.device = device_of(options, local_device(world));
  }
  division.tensor = ranks.tensor;
  division.stages = ranks.stages;
  division.stages_per_rank = options.stages_per_rank;
  return division;
}

bool is_in_parts(torch::nn::Module& model) {
  return ranks_of_parts(model).has_value() || stages_of(model) != nullptr;
}

std::int64_t count_parameters(torch::nn::Module& model, const Ranks& ranks) {
  std::set<std::string> elsewhere;
  if (ranks.stages) elsewhere = names_of_ranks_before(model, *ranks.stages);
  const auto parts = parts_of(model);
  std::int64_t count = 0;
  for (const auto& item : model.named_parameters()) {
    if (!elsewhere.contains(item.key()))
      count += c10::multiply_integers(whole_shape(item.value(), find_part(parts, item.key())));
  }
  if (ranks.stages) ranks.stages->allreduce(&count, &count, 1, DataType::int64);
  return count;
}

void check_division(torch::nn::Module& model, const TrainOptions& options, const Ranks& ranks) {
  if (const ShardedUnits* const units = units_of(model)) {
    throw_on_all(ranks.all, wrong_ranks_of(*units, options, ranks));
    check_units(model, *units, options);
    throw_on_all(ranks.all, wrong_device_of(model, *units, options, ranks.all));
  }
  auto problem = wrong_ranks_of(kStages, ranks_of_stages(model), ranks.stages, options, ranks);
  const HasStages* const stages = stages_of(model);
  if (problem.empty() && stages != nullptr && stages->stages_per_rank() != options.stages_per_rank)
    problem = fmt::format("--stages-per-rank {}: the model has {} a rank", options.stages_per_rank,
                          stages->stages_per_rank());
  throw_on_all(ranks.all, problem);
  // A stage may have no layer that is in parts.
  const auto parts = ranks_of_parts(model);
  std::int64_t are_parts = parts ? 1 : 0;
  ranks.all.allreduce(&are_parts, &are_parts, 1, DataType::int64, ReduceOp::max);
  problem = wrong_ranks_of(kParts, parts, ranks.tensor, options, ranks);
  const bool is_without = ranks.stages && !parts && are_parts != 0;
  throw_on_all(ranks.all, is_without ? "" : problem);
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
  if (ranks.stages) TiedParameters(model, *ranks.stages).start_equal();
  broadcast_parameters(model, 0, ranks.data);
}

}  // namespace sullae::train

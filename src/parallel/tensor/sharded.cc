// Models in parts, whose ranks divide the optimizer of each part among those that have it.
#include <fmt/format.h>
#include <torch/torch.h>

#include <map>

#include "parallel/agreement.h"
#include "parallel/gradient_norm.h"
#include "parallel/sharded_within.h"
#include "parallel/tensor/joined_model.h"
#include "sullae/error.h"
#include "sullae/parallel/tensor_parallel.h"

namespace sullae {
namespace {

// Of what is trained this rank's piece, by the module's first name of it. Collective over `world`.
UpdatedByName pieces_by_name(const torch::nn::Module& module, const ParameterStore& store,
                             const World& world) {
  UpdatedByName updated;
  std::string problem;
  std::map<const void*, std::string> names;
  for (const auto& item : module.named_parameters())
    names.emplace(item.value().unsafeGetTensorImpl(), item.key());
  for (std::size_t i = 0; i < store.all().size(); ++i) {
    if (!store.is_trained(i)) continue;
    const PlannedParameter& one = store.all()[i];
    const auto name = names.find(one.tensor.unsafeGetTensorImpl());
    if (name == names.end()) {
      problem =
          fmt::format("the optimizer has a parameter '{}', which the module has not", one.name);
      break;
    }
    IndexRange elements;
    for (const Part& part : store.parts_of(i)) {
      if (part.rank == store.world().rank())
        elements = {static_cast<std::int64_t>(part.from), static_cast<std::int64_t>(part.to)};
    }
    updated[name->second] = {.tensor = store.piece_of(i), .elements = elements};
  }
  for (const auto& item : module.named_parameters()) {
    const auto name = names.at(item.value().unsafeGetTensorImpl());
    if (problem.empty() && item.value().requires_grad() && !updated.contains(name))
      problem = fmt::format("the module has a parameter '{}', which the optimizer has not", name);
  }
  if (!problem.empty())
    problem = fmt::format(
        "a checkpoint of a model in parts: {}: expected an optimizer of module.named_parameters()",
        problem);
  throw_on_all(world, problem);
  return updated;
}

JoinedModel joined(const torch::nn::Module& module, const ParameterStore& store,
                   const World& world) {
  return {{{module}}, pieces_by_name(module, store, world), world};
}

PartsOptimizer as_parts(const Sharded& sharded) {
  return {.optimizer = sharded.optimizer, .make = sharded.make};
}

}  // namespace

bool unscale(ShardedOptimizer& optimizer, double scale, const World& world) {
  std::int64_t finite = optimizer.unscale(scale) ? 1 : 0;
  world.allreduce(&finite, &finite, 1, DataType::int64, ReduceOp::min);
  return finite != 0;
}

double clip_grad_norm(const torch::nn::Module& module, ShardedOptimizer& optimizer, double most,
                      const World& world) {
  optimizer.synchronize();
  const auto tensor = world_of_parts(module);
  const auto pieces = optimizer.pieces();
  const World* const replicas = within(optimizer).store.replicas();
  const double squares = own_squares(pieces, parts_of(module), !tensor || tensor->rank() == 0);
  const bool counts = replicas == nullptr || replicas->rank() == 0;
  return clip_to_norm(pieces, counts ? squares : 0, most, world);
}

void save_checkpoint(const std::filesystem::path& file, const torch::nn::Module& module,
                     ShardedOptimizer& optimizer, const World& world,
                     const CheckpointOptions& options) {
  const auto [store, sharded] = within(optimizer);
  const auto parts = as_parts(sharded);
  joined(module, store, world).save(file, &parts, options);
}

void save_weights(const std::filesystem::path& file, const torch::nn::Module& module,
                  ShardedOptimizer& optimizer, const World& world,
                  const CheckpointOptions& options) {
  joined(module, within(optimizer).store, world).save(file, nullptr, options);
}

CheckpointMetadata load_checkpoint(const std::filesystem::path& file, torch::nn::Module& module,
                                   ShardedOptimizer& optimizer, const World& world) {
  const auto [store, sharded] = within(optimizer);
  const auto parts = as_parts(sharded);
  auto metadata = joined(module, store, world).load(file, &parts);
  store.refresh();
  return metadata;
}

CheckpointMetadata load_weights(const std::filesystem::path& file, torch::nn::Module& module,
                                ShardedUnits& units, const World& world) {
  ParameterStore& store = store_of(units);
  auto metadata = joined(module, store, world).load(file, nullptr);
  store.refresh();
  return metadata;
}

}  // namespace sullae

// Models in parts, whose ranks divide the optimizer of each part among those that have it.
#include <torch/torch.h>

#include "parallel/gradient_norm.h"
#include "parallel/sharded_within.h"
#include "parallel/tensor/joined_model.h"
#include "parallel/tensor/updated_pieces.h"
#include "sullae/parallel/tensor_parallel.h"

namespace sullae {
namespace {

JoinedModel joined(const torch::nn::Module& module, const ParameterStore& store,
                   const World& world) {
  return {{{module}}, pieces_by_name(module.named_parameters(), store, world), world};
}

}  // namespace

bool unscale(ShardedOptimizer& optimizer, double scale, const World& world) {
  std::int64_t finite = optimizer.unscale(scale) ? 1 : 0;
  world.allreduce(&finite, &finite, 1, DataType::int64, ReduceOp::min);
  return finite != 0;
}

double clip_grad_norm(const torch::nn::Module& module, ShardedOptimizer& optimizer, double max_norm,
                      const World& world) {
  optimizer.synchronize();
  const auto tensor = world_of_parts(module);
  const ParameterStore& store = within(optimizer).store;
  const auto pieces = pieces_called_as(module.named_parameters(), store);
  const World* const replicas = store.replicas();
  const double squares = own_squares(pieces, parts_of(module), !tensor || tensor->rank() == 0);
  const bool counts = replicas == nullptr || replicas->rank() == 0;
  return clip_to_norm(pieces, counts ? squares : 0, max_norm, world);
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

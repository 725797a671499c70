#include "train/update/sharded_update.h"

#include <torch/torch.h>

#include <memory>
#include <utility>

#include "sullae/torch.h"
#include "torch/trained_parameters.h"
#include "train/loss_scale.h"
#include "train/optimizers.h"
#include "train/update/stopwatch.h"

namespace sullae::train {

ShardedUpdate::ShardedUpdate(torch::nn::Module& model, const TrainOptions& options)
    : model_(model), options_(options), units_(units_of(model)), names_(model.named_parameters()) {
  for (const auto& weight : names_.values()) {
    if (weight.is_floating_point()) type_ = weight.scalar_type();
  }
  const auto type = low_precision(options);
  if (!type) return;
  type_ = *type;
  if (units_ != nullptr) return;  // which are cast
  // Of which each rank keeps its part, once there is a world.
  for (const auto& item : names_) originals_.insert(item.key(), item.value().detach().clone());
  cast_to_16_bits(model, *type);
}

void ShardedUpdate::enter(const World& world) {
  world_ = world;
  const auto make_own = [this](const ShardedOptimizer::Pieces& pieces) {
    return make(pieces);
  };
  if (units_ != nullptr) {
    sharded_.emplace(*units_, make_own);
    return;
  }
  sharded_.emplace(names_, make_own,
                   ShardedOptimizerOptions{.stage = options_.shard == "gradients" ? 2 : 1,
                                           .backward_passes_per_step = options_.accumulation_steps,
                                           .overlap = options_.overlap,
                                           .own_buckets = own_buckets_},
                   world);
  sharded_->take_weights(originals_);
  originals_.clear();
}

bool ShardedUpdate::reduce(double scale) {
  {
    const Stopwatch watch(waiting_);
    sharded_->synchronize();
  }
  return !low_precision(options_) || sharded_->unscale(scale);
}

void ShardedUpdate::join_weights() { broadcast_buffers(model_, *world_); }

// Each rank writes its parts, and nobody has the whole.
std::optional<SerializedCheckpoint> ShardedUpdate::save(const std::filesystem::path& file,
                                                        CheckpointMetadata metadata) {
  save_checkpoint(file, model_, *sharded_, {.metadata = std::move(metadata)});
  return std::nullopt;
}

std::optional<SerializedCheckpoint> ShardedUpdate::save_weights(const std::filesystem::path& file,
                                                                CheckpointMetadata metadata) {
  sullae::save_weights(file, model_, *sharded_, {.metadata = std::move(metadata)});
  return std::nullopt;
}

void ShardedUpdate::load(const LoadedCheckpoint& loaded) {
  const KeptOptions kept(sharded_->optimizer());
  load_checkpoint(loaded.file, model_, *sharded_);
}

// Units are made in whatever order; checkpoints have the model's.
std::unique_ptr<torch::optim::Optimizer> ShardedUpdate::make(
    const ShardedOptimizer::Pieces& pieces) const {
  if (units_ == nullptr) return make_optimizer(options_, pieces);
  ShardedOptimizer::Pieces ordered;
  // Files list also what is frozen, in units and beside them, as one process's do.
  const bool is_of_file = !pieces.is_empty() && pieces.front().value().is_meta();
  for (const auto& item : each_once(names_)) {
    if (const torch::Tensor* const piece = pieces.find(item.key()))
      ordered.insert(item.key(), *piece);
    else if (is_of_file && !item.value().requires_grad())
      ordered.insert(item.key(), torch::empty(item.value().sizes(), torch::kMeta));
  }
  for (const auto& item : pieces) {
    if (!ordered.contains(item.key())) ordered.insert(item.key(), item.value());
  }
  return make_optimizer(options_, ordered);
}

std::unique_ptr<WeightUpdate> make_sharded_update(torch::nn::Module& model,
                                                  const TrainOptions& options) {
  return std::make_unique<ShardedUpdate>(model, options);
}

}  // namespace sullae::train

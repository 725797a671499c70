#include <torch/torch.h>

#include <optional>
#include <utility>

#include "sullae/parallel/sharded_optimizer.h"
#include "sullae/torch.h"
#include "sullae/train/units.h"
#include "train/loss_scale.h"
#include "train/optimizers.h"
#include "train/update/stopwatch.h"
#include "train/update/weight_update.h"

namespace sullae::train {
namespace {

class ShardedUpdate final : public WeightUpdate {
 public:
  // `model` has the weights to start from.
  ShardedUpdate(torch::nn::Module& model, const TrainOptions& options)
      : model_(model),
        options_(options),
        units_(units_of(model)),
        names_(model.named_parameters()) {
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

  void enter(const World& world) override {
    const auto make = [this](const ShardedOptimizer::Pieces& pieces) {
      return make_optimizer(options_, in_order(pieces));
    };
    if (units_ != nullptr) {
      sharded_.emplace(*units_, make);
      return;
    }
    sharded_.emplace(
        names_, make,
        ShardedOptimizerOptions{.stage = options_.shard == "gradients" ? 2 : 1,
                                .backward_passes_per_step = options_.accumulation_steps,
                                .overlap = options_.overlap},
        world);
    sharded_->take_weights(originals_);
    originals_.clear();
  }

  torch::optim::Optimizer& optimizer() override { return sharded_->optimizer(); }
  bool averages_gradients() const override { return true; }
  torch::ScalarType input_type() const override { return type_; }
  void zero_grad() override { sharded_->zero_grad(); }

  bool reduce(double scale) override {
    {
      const Stopwatch watch(waiting_);
      sharded_->synchronize();
    }
    return !low_precision(options_) || sharded_->unscale(scale);
  }

  void clip(double norm) override { sharded_->clip_grad_norm(norm); }
  void step() override { sharded_->step(); }

  // Each rank writes its parts, and nobody has the whole.
  std::optional<SerializedCheckpoint> save(const std::filesystem::path& file,
                                           CheckpointMetadata metadata) override {
    save_checkpoint(file, model_, *sharded_, {.metadata = std::move(metadata)});
    return std::nullopt;
  }
  std::optional<SerializedCheckpoint> save_weights(const std::filesystem::path& file,
                                                   CheckpointMetadata metadata) override {
    sullae::save_weights(file, model_, *sharded_, {.metadata = std::move(metadata)});
    return std::nullopt;
  }
  void load(const LoadedCheckpoint& loaded) override {
    load_checkpoint(loaded.file, model_, *sharded_);
  }

  MasterWeights master_weights() override { return sharded_->master_weights(); }

 private:
  // As the model has them, whatever order units were made in: it is that of checkpoints, too.
  ShardedOptimizer::Pieces in_order(const ShardedOptimizer::Pieces& pieces) const {
    ShardedOptimizer::Pieces ordered;
    for (const std::string& name : names_.keys()) {
      if (const torch::Tensor* const piece = pieces.find(name)) ordered.insert(name, *piece);
    }
    for (const auto& item : pieces) {
      if (!ordered.contains(item.key())) ordered.insert(item.key(), item.value());
    }
    return ordered;
  }

  torch::nn::Module& model_;
  TrainOptions options_;
  ShardedUnits* units_;  // null but for --shard parameters
  torch::OrderedDict<std::string, torch::Tensor> names_;
  torch::OrderedDict<std::string, torch::Tensor> originals_;  // in float32, before the first world
  torch::ScalarType type_ = torch::kFloat32;
  std::optional<ShardedOptimizer> sharded_;
};

}  // namespace

std::unique_ptr<WeightUpdate> make_sharded_update(torch::nn::Module& model,
                                                  const TrainOptions& options) {
  return std::make_unique<ShardedUpdate>(model, options);
}

}  // namespace sullae::train

// Each rank updates a part of all parameters: --shard.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "sullae/parallel/sharded_optimizer.h"
#include "sullae/train/units.h"
#include "train/options.h"
#include "train/update/weight_update.h"

namespace sullae::train {

class ShardedUpdate final : public WeightUpdate {
 public:
  /// `model` has the weights to start from, and outlives this object.
  ShardedUpdate(torch::nn::Module& model, const TrainOptions& options);

  /// See ShardedOptimizerOptions. Before enter().
  void set_own_buckets(std::set<std::string> names) { own_buckets_ = std::move(names); }
  void enter(const World& world) override;
  torch::optim::Optimizer& optimizer() override { return sharded_->optimizer(); }
  bool averages_gradients() const override { return true; }
  torch::ScalarType input_type() const override { return type_; }
  void zero_grad() override { sharded_->zero_grad(); }
  bool reduce(double scale) override;
  void clip(double norm) override { sharded_->clip_grad_norm(norm); }
  void step() override { sharded_->step(); }
  void join_weights() override;
  std::optional<SerializedCheckpoint> save(const std::filesystem::path& file,
                                           CheckpointMetadata metadata) override;
  std::optional<SerializedCheckpoint> save_weights(const std::filesystem::path& file,
                                                   CheckpointMetadata metadata) override;
  void load(const LoadedCheckpoint& loaded) override;
  MasterWeights master_weights() override { return sharded_->master_weights(); }

  /// Once there is a world.
  ShardedOptimizer& sharded() { return *sharded_; }

 private:
  std::unique_ptr<torch::optim::Optimizer> make(const ShardedOptimizer::Pieces& pieces) const;

  torch::nn::Module& model_;
  TrainOptions options_;
  std::set<std::string> own_buckets_;
  ShardedUnits* units_;  // null but for --shard parameters
  torch::OrderedDict<std::string, torch::Tensor> names_;
  torch::OrderedDict<std::string, torch::Tensor> originals_;  // in float32, before the first world
  torch::ScalarType type_ = torch::kFloat32;
  std::optional<World> world_;
  std::optional<ShardedOptimizer> sharded_;
};

}  // namespace sullae::train

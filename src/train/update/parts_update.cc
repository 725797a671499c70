#include <torch/torch.h>

#include <memory>
#include <optional>
#include <utility>

#include "parallel/gradient_norm.h"
#include "sullae/parallel/tensor_parallel.h"
#include "train/loss_scale.h"
#include "train/tied_parameters.h"
#include "train/update/part.h"
#include "train/update/weight_update.h"

namespace sullae::train {
namespace {

// What each rank has is updated as if it were all; the norm of gradients, and whether they are finite, are the whole model's, and files are, too.
class PartsUpdate final : public WeightUpdate {
 public:
  // `model` has the weights to start from.
  PartsUpdate(torch::nn::Module& model, const TrainOptions& options, const Ranks& ranks)
      : model_(model), options_(options), ranks_(ranks) {
    part_ = options.shard == "none" ? make_replicated_part(model, options, ranks)
                                    : make_sharded_part(model, options, ranks);
    if (!ranks.stages) return;
    tied_.emplace(model, *ranks.stages);  // of the types that they have by now
    part_->divide_alike(tied_->names());
  }

  void enter(const World& world) override { own().enter(world); }
  torch::optim::Optimizer& optimizer() override { return own().optimizer(); }
  bool averages_gradients() const override { return true; }
  torch::ScalarType input_type() const override { return part_->update().input_type(); }
  void zero_grad() override { own().zero_grad(); }

  bool reduce(double scale) override {
    std::int64_t finite = own().reduce(scale) ? 1 : 0;
    waiting_ = own().seconds_waiting();
    if (tied_) tied_->add_up_gradients(part_->updated());
    if (low_precision(options_))
      ranks_.model->allreduce(&finite, &finite, 1, DataType::int64, ReduceOp::min);
    return finite != 0;
  }

  void clip(double norm) override {
    const auto updated = part_->updated();
    // Replicas of units have the same.
    const bool counts = !ranks_.replicas || ranks_.replicas->rank() == 0;
    const double squares =
        own_squares(updated, parts_of(model_), !ranks_.tensor || ranks_.tensor->rank() == 0,
                    tied_ ? tied_->of_ranks_before() : std::set<std::string>());
    // Ranks that have the same parts have all of these, or divide them.
    clip_to_norm(updated, counts ? squares : 0, norm,
                 options_.shard == "none" ? *ranks_.model : ranks_.all);
  }
  void step() override { own().step(); }

  void join_weights() override { own().join_weights(); }
  std::optional<SerializedCheckpoint> save(const std::filesystem::path& file,
                                           CheckpointMetadata metadata) override {
    part_->save(file, std::move(metadata));
    return std::nullopt;
  }
  std::optional<SerializedCheckpoint> save_weights(const std::filesystem::path& file,
                                                   CheckpointMetadata metadata) override {
    part_->save_weights(file, std::move(metadata));
    return std::nullopt;
  }
  void load(const LoadedCheckpoint& loaded) override { part_->load(loaded.file); }

  MasterWeights master_weights() override { return own().master_weights(); }

 private:
  WeightUpdate& own() { return part_->update(); }

  torch::nn::Module& model_;
  TrainOptions options_;
  Ranks ranks_;
  std::optional<TiedParameters> tied_;  // of stages
  std::unique_ptr<Part> part_;
};

}  // namespace

std::unique_ptr<WeightUpdate> make_parts_update(torch::nn::Module& model,
                                                const TrainOptions& options, const Ranks& ranks) {
  return std::make_unique<PartsUpdate>(model, options, ranks);
}

}  // namespace sullae::train

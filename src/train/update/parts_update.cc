#include <torch/torch.h>

#include <optional>
#include <utility>

#include "parallel/agreement.h"
#include "parallel/gradient_norm.h"
#include "sullae/parallel/tensor_parallel.h"
#include "sullae/torch.h"
#include "train/loss_scale.h"
#include "train/optimizers.h"
#include "train/tied_parameters.h"
#include "train/update/weight_update.h"

namespace sullae::train {
namespace {

// What each rank has is updated as if it were all; the norm of gradients, and whether they are finite, are the whole model's, and files are, too.
class PartsUpdate final : public WeightUpdate {
 public:
  // `model` has the weights to start from.
  PartsUpdate(torch::nn::Module& model, const TrainOptions& options, const Ranks& ranks)
      : model_(model),
        options_(options),
        ranks_(ranks),
        own_(make_replicated_update(model, options)) {
    if (ranks.stages) tied_.emplace(model, *ranks.stages);
  }

  void enter(const World& world) override {
    world_ = world;
    own_->enter(world);
  }

  torch::optim::Optimizer& optimizer() override { return own_->optimizer(); }
  bool averages_gradients() const override { return true; }
  torch::ScalarType input_type() const override { return own_->input_type(); }
  void zero_grad() override { own_->zero_grad(); }

  bool reduce(double scale) override {
    std::int64_t finite = own_->reduce(scale) ? 1 : 0;
    waiting_ = own_->seconds_waiting();
    if (tied_) tied_->add_up_gradients(own_->master_weights());
    if (low_precision(options_))
      parts_world().allreduce(&finite, &finite, 1, DataType::int64, ReduceOp::min);
    return finite != 0;
  }

  void clip(double norm) override {
    const auto weights = with_masters(model_.named_parameters(), own_->master_weights());
    const double squares =
        own_squares(weights, parts_of(model_), !ranks_.tensor || ranks_.tensor->rank() == 0,
                    tied_ ? tied_->of_ranks_before() : std::set<std::string>());
    clip_to_norm(weights, squares, norm, parts_world());
  }
  void step() override { own_->step(); }

  std::optional<SerializedCheckpoint> save(const std::filesystem::path& file,
                                           CheckpointMetadata metadata) override {
    on_first_of_each_part([&] {
      save_checkpoint(file, model_, as_parts(), parts_world(), {.metadata = std::move(metadata)});
    });
    return std::nullopt;
  }
  std::optional<SerializedCheckpoint> save_weights(const std::filesystem::path& file,
                                                   CheckpointMetadata metadata) override {
    on_first_of_each_part([&] {
      sullae::save_weights(file, model_, parts_world(), {.metadata = std::move(metadata)},
                           own_->master_weights());
    });
    return std::nullopt;
  }
  void load(const LoadedCheckpoint& loaded) override {
    on_first_of_each_part([&] { load_checkpoint(loaded.file, model_, as_parts(), parts_world()); });
    for (auto& [name, weight] : own_->master_weights()) {
      torch::Tensor values = weight.detach();
      broadcast(values, 0, *world_);
    }
    own_->take_master_weights();
    broadcast_parameters(model_, 0, *world_);
    broadcast_optimizer_state(own_->optimizer(), 0, *world_);
  }

  MasterWeights master_weights() override { return own_->master_weights(); }

 private:
  // Those that have the model together.
  const World& parts_world() const { return *ranks_.model; }

  PartsOptimizer as_parts() {
    return {.optimizer = own_->optimizer(),
            .make = [this](const auto& pieces) { return make_optimizer(options_, pieces); },
            .masters = own_->master_weights()};
  }

  // Of the ranks that have the same part. What it throws, all throw.
  void on_first_of_each_part(const std::function<void()>& what) { on_root(*world_, 0, what); }

  torch::nn::Module& model_;
  TrainOptions options_;
  Ranks ranks_;
  std::unique_ptr<GatheredUpdate> own_;
  std::optional<TiedParameters> tied_;  // of stages
  std::optional<World> world_;
};

}  // namespace

std::unique_ptr<WeightUpdate> make_parts_update(torch::nn::Module& model,
                                                const TrainOptions& options, const Ranks& ranks) {
  return std::make_unique<PartsUpdate>(model, options, ranks);
}

}  // namespace sullae::train

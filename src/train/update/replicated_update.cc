#include <torch/torch.h>

#include <optional>
#include <unordered_map>

#include "sullae/torch.h"
#include "torch/trained_parameters.h"
#include "train/local_sgd.h"
#include "train/loss_scale.h"
#include "train/optimizers.h"
#include "train/update/stopwatch.h"
#include "train/update/weight_update.h"

namespace sullae::train {
namespace {

class ReplicatedUpdate final : public GatheredUpdate {
 public:
  // `model` has the weights to start from; the optimizer is made.
  ReplicatedUpdate(torch::nn::Module& model, const TrainOptions& options)
      : GatheredUpdate(model),
        options_(options),
        local_sgd_(parse_local_sgd(options.local_sgd)),
        weights_(each_once(model.named_parameters())) {
    for (const auto& weight : weights_.values()) {
      if (weight.is_floating_point()) type_ = weight.scalar_type();
    }
    if (const auto type = low_precision(options)) {
      mixed_.emplace(model, MixedPrecisionOptions{.type = *type});
      type_ = *type;
      weights_ = mixed_->master_named_parameters();
    }
    optimizer_ = make_optimizer(options, weights_);
  }

  void enter(const World& world) override {
    distributed_.reset();  // a gradient belongs to one at a time
    world_ = world;
    if (local_sgd_.enabled()) return;
    distributed_.emplace(
        *optimizer_, reduces_in_float32() || !mixed_ ? weights_ : mixed_->parameters(),
        DistributedOptimizerOptions{
            .backward_passes_per_step = options_.scale_up > 1 ? 1 : options_.accumulation_steps,
            .compression = options_.compression,
            // Gradients of the master weights are made after backward.
            .overlap = options_.overlap && !reduces_in_float32(),
            .after_backward = false},
        world);
  }

  torch::optim::Optimizer& optimizer() override { return *optimizer_; }
  bool averages_gradients() const override { return distributed_.has_value(); }
  torch::ScalarType input_type() const override { return type_; }

  void zero_grad() override {
    if (mixed_) mixed_->zero_grad();
    if (distributed_) {
      distributed_->zero_grad();
    } else {
      optimizer_->zero_grad();
    }
  }

  bool reduce(double scale) override {
    if (reduces_in_float32()) mixed_->unscale(scale);
    if (distributed_) {
      const Stopwatch watch(waiting_);
      distributed_->synchronize();
    }
    if (!mixed_) return true;
    if (!reduces_in_float32()) mixed_->unscale(scale);
    return mixed_->has_finite_gradients();
  }

  void clip(double norm) override { torch::nn::utils::clip_grad_norm_(weights_.values(), norm); }

  void step() override {
    if (distributed_) {
      distributed_->step();
    } else {
      optimizer_->step();
    }
    if (mixed_) mixed_->update_model();
  }

  void step_ended() override {
    ++steps_apart_;
    if (local_sgd_.steps > 0 && steps_apart_ >= local_sgd_.steps) average_weights();
  }

  void join_weights() override {
    if (local_sgd_.enabled() && steps_apart_ > 0) average_weights();
    broadcast_buffers(model_, *world_);
  }

  void take_master_weights() override {
    if (mixed_) mixed_->update_model();
  }

  WholeState gather() override { return {.optimizer = &*optimizer_, .weights = master_weights()}; }

  MasterWeights master_weights() override {
    MasterWeights weights;
    if (!mixed_) return weights;
    std::unordered_map<const void*, torch::Tensor> masters;  // by the model's
    const auto parameters = model_.named_parameters();
    for (const auto& item : weights_)
      masters.emplace(parameters[item.key()].unsafeGetTensorImpl(), item.value());
    // By all names that one has.
    for (const auto& item : parameters)
      weights.emplace(item.key(), masters.at(item.value().unsafeGetTensorImpl()));
    return weights;
  }

  void scatter(torch::optim::Optimizer& loaded) override {
    move_optimizer_state(loaded, *optimizer_);
    broadcast_optimizer_state(*optimizer_, 0, *world_);
  }

 private:
  // Gradients of the master weights are averaged, and not those of the model.
  bool reduces_in_float32() const { return mixed_ && options_.allreduce_precision == "float32"; }

  void average_weights() {
    const Stopwatch watch(waiting_);
    steps_apart_ = 0;
    if (mixed_) {
      const torch::NoGradGuard guard;
      for (auto& item : weights_) {
        torch::Tensor weight = item.value().detach();
        allreduce(weight, ReduceOp::average, *world_);
      }
    }
    average_parameters(model_, *world_);
    average_optimizer_state(*optimizer_, *world_);
    if (mixed_) mixed_->update_model();
  }

  TrainOptions options_;
  LocalSgd local_sgd_;
  std::optional<World> world_;
  torch::ScalarType type_ = torch::kFloat32;
  std::optional<MixedPrecision> mixed_;
  torch::OrderedDict<std::string, torch::Tensor> weights_;  // that the optimizer updates
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<DistributedOptimizer> distributed_;
  std::int64_t steps_apart_ = 0;  // since weights were averaged
};

}  // namespace

std::unique_ptr<GatheredUpdate> make_replicated_update(torch::nn::Module& model,
                                                       const TrainOptions& options) {
  return std::make_unique<ReplicatedUpdate>(model, options);
}

}  // namespace sullae::train

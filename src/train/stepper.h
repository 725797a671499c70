// One training step: forward and backward of a rank's batch, in parts and on replicas, gradients or
// weights averaged over ranks, in mixed precision or not.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <optional>
#include <vector>

#include "sullae/torch.h"
#include "sullae/train/objective.h"
#include "train/options.h"
#include "train/ranks.h"
#include "train/staged_model.h"
#include "train/update/weight_update.h"

namespace sullae::train {

struct StepResult {
  double own_loss = 0;  ///< mean over this rank's samples; 0 where it has none
  std::int64_t own_samples = 0;
};

/// Used by the training thread.
class Stepper {
 public:
  /// `model` has the weights to start from; the optimizer is made. All but `ranks` must outlive
  /// this object; these may be null where each rank has the whole model.
  Stepper(torch::nn::Module& model, const Objective& objective, const TrainOptions& options,
          torch::Device device, const Ranks* ranks = nullptr);
  ~Stepper();

  /// Before the first step, and where another world follows: its ranks, which divide the samples,
  /// have equal weights. Collective.
  void enter(const World& world);
  /// Of a model in stages; else null.
  StagedModel* staged() { return staged_.get(); }
  /// How its gradients become weights.
  WeightUpdate& update() { return *update_; }
  const WeightUpdate& update() const { return *update_; }
  LossScaler& scaler() { return scaler_; }
  const LossScaler& scaler() const { return scaler_; }

  /// `parts` are this rank's batch, divided for accumulation and replicas; perhaps none. Parts of a
  /// batch of `samples` over all ranks count by their samples, however uneven, so that the step is
  /// that of one process; without `samples`, ranks count equally. `idle` count nothing: a rank goes
  /// through the model with them where others have more parts, and the model is of units, in which
  /// all ranks run together. Collective.
  StepResult step(const std::vector<Batch>& parts, double lr,
                  std::optional<std::size_t> samples = std::nullopt,
                  const std::vector<Batch>& idle = {});

 private:
  struct Losses {
    std::vector<torch::Tensor> of_parts;  // where the model computes
    double of_stages = 0;                 // or all of them
    double own = 0;                       // samples of this rank
    double total = 0;                     // what each of them is divided by
  };
  Losses backward(const std::vector<Batch>& parts, std::optional<std::size_t> samples);
  double backward_in_stages(const std::vector<Batch>& parts, double total);
  void run_idle(const std::vector<Batch>& idle);
  torch::Tensor loss_of(torch::nn::Module& model, const Batch& batch, double total) const;

  torch::nn::Module& model_;
  const Objective& objective_;
  TrainOptions options_;
  torch::Device device_;
  LossScaler scaler_;
  std::unique_ptr<WeightUpdate> update_;
  int ranks_ = 1;
  std::optional<sullae::detail::ReplicaSet> replicas_;
  std::unique_ptr<StagedModel> staged_;
};

}  // namespace sullae::train

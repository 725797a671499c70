// One training step: forward and backward of a rank's batch, in parts and on replicas, gradients or
// weights averaged over ranks, in mixed precision or not.
#pragma once

#include <torch/optim/optimizer.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sullae/torch.h"
#include "sullae/train/objective.h"
#include "train/local_sgd.h"
#include "train/options.h"

namespace sullae::train {

struct StepResult {
  double loss = 0;       ///< its average over ranks is the mean over all their samples
  double own_loss = 0;   ///< mean over this rank's samples; 0 where it has none
  bool skipped = false;  ///< gradients overflowed: no weight has changed
};

/// Used by the training thread.
class Stepper {
 public:
  /// `model` has the weights to start from; the optimizer is made. All must outlive this object.
  Stepper(torch::nn::Module& model, const Objective& objective, const TrainOptions& options,
          torch::Device device);
  ~Stepper();

  /// Before the first step, and where another world follows: its ranks have equal weights. Collective.
  void enter(const World& world);

  /// Loaded before the first step, where a run is resumed.
  torch::optim::Optimizer& optimizer() { return *optimizer_; }
  LossScaler& scaler() { return scaler_; }
  const LossScaler& scaler() const { return scaler_; }

  /// `parts` are this rank's batch, divided for accumulation and replicas; perhaps none. Parts of a batch of `samples` over
  /// all ranks count by their samples, however uneven, so that the step is that of one process; without `samples`,
  /// ranks count equally. Collective.
  StepResult step(const std::vector<Batch>& parts, double lr,
                  std::optional<std::size_t> samples = std::nullopt);
  /// Weights and moments that ranks have changed apart are averaged, so that rank 0's are everybody's. Collective.
  void join_weights();

  /// What a checkpoint holds in place of the model's own parameters.
  std::map<std::string, torch::Tensor> master_weights() const;
  /// How batches must come.
  torch::ScalarType input_type() const { return type_; }
  /// Time spent waiting for other ranks.
  double seconds_waiting_for_ranks() const { return waiting_; }

 private:
  /// Gradients of the master weights are averaged, and not those of the model.
  bool reduces_in_float32() const { return mixed_ && options_.allreduce_precision == "float32"; }
  void zero_grad();
  struct Losses {
    std::vector<torch::Tensor> of_parts;  // where the model computes
    double own = 0;                       // samples of this rank
    double total = 0;                     // what each of them is divided by
  };
  Losses backward(const std::vector<Batch>& parts, std::optional<std::size_t> samples);
  torch::Tensor loss_of(torch::nn::Module& model, const Batch& batch, double total) const;
  bool reduce();
  void clip();
  void average_weights();

  torch::nn::Module& model_;
  const Objective& objective_;
  TrainOptions options_;
  std::optional<World> world_;
  LocalSgd local_sgd_;
  torch::Device device_;
  torch::ScalarType type_ = torch::kFloat32;
  std::optional<MixedPrecision> mixed_;
  LossScaler scaler_;
  torch::OrderedDict<std::string, torch::Tensor> weights_;  // that the optimizer updates
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<DistributedOptimizer> distributed_;
  std::optional<sullae::detail::ReplicaSet> replicas_;
  std::int64_t steps_apart_ = 0;  // since weights were averaged
  double waiting_ = 0;
};

}  // namespace sullae::train

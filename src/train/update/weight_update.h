// From the gradients of a step to the weights of the next, on all ranks: the seam, and who stands behind it.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/ordered_dict.h>

#include <map>
#include <memory>
#include <string>

#include "sullae/sullae.h"
#include "train/options.h"

namespace sullae::train {

/// Float32 weights of parameters in 16 bits, by name.
using MasterWeights = std::map<std::string, torch::Tensor>;

/// What a checkpoint holds beside the model.
struct WholeState {
  torch::optim::Optimizer* optimizer = nullptr;
  MasterWeights weights;
  std::unique_ptr<torch::optim::Optimizer> owned;  ///< perhaps the optimizer
};

/// Used by the training thread. enter() comes before all that is done in steps.
class WeightUpdate {
 public:
  virtual ~WeightUpdate() = default;

  /// Before the first step, and where another world follows: its ranks have equal weights. Collective.
  virtual void enter(const World& world) = 0;
  /// For learning rates.
  virtual torch::optim::Optimizer& optimizer() = 0;
  /// Whether gradients are averaged over the ranks, and a sample therefore counts as one of all of them.
  virtual bool averages_gradients() const = 0;
  /// How batches must come.
  virtual torch::ScalarType input_type() const = 0;

  virtual void zero_grad() = 0;
  /// Waits until gradients are everybody's, and divides them by `scale`. Returns whether they are finite: on every rank the
  /// same where they are averaged. Collective.
  virtual bool reduce(double scale) = 0;
  /// After reduce(). Collective.
  virtual void clip(double norm) = 0;
  virtual void step() = 0;
  /// After each step, also one that was skipped.
  virtual void step_ended() {}

  /// Weights and moments that ranks have changed apart are averaged, so that rank 0's are everybody's. Collective.
  virtual void join_weights() {}
  /// On rank 0 what a checkpoint holds. Collective.
  virtual WholeState gather() = 0;
  /// Its weights alone. Collective.
  virtual MasterWeights master_weights() = 0;
  /// Takes the state of `loaded`, an optimizer of the whole model, as it is on rank 0. Collective.
  virtual void load(torch::optim::Optimizer& loaded) = 0;
  /// A line on what was seen of the training so far; empty where there is nothing to say.
  virtual std::string observed() const { return {}; }
  /// Time spent waiting for other ranks.
  double seconds_waiting() const { return waiting_; }

 protected:
  double waiting_ = 0;
};

/// Every rank has all weights and the whole optimizer, and averages gradients, or with --local-sgd weights.
std::unique_ptr<WeightUpdate> make_replicated_update(torch::nn::Module& model,
                                                     const TrainOptions& options);
/// Each rank has a part of the optimizer's state: --shard.
std::unique_ptr<WeightUpdate> make_sharded_update(torch::nn::Module& model,
                                                  const TrainOptions& options);

/// Whether this job has parameter servers.
bool has_parameter_servers();
/// They have weights and optimizer, and each rank steps as far ahead of others as they allow.
std::unique_ptr<WeightUpdate> make_server_update(torch::nn::Module& model,
                                                 const TrainOptions& options);
/// They have the rows of a model that is a HasTable: --ps-mode ps-sparse.
std::unique_ptr<WeightUpdate> make_sparse_server_update(torch::nn::Module& model,
                                                        const TrainOptions& options);

/// By the options, and by what the job has.
std::unique_ptr<WeightUpdate> make_update(torch::nn::Module& model, const TrainOptions& options);

}  // namespace sullae::train

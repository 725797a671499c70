// From the gradients of a step to the weights of the next, on all ranks: the seam, and who stands
// behind it.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/ordered_dict.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "sullae/sullae.h"
#include "sullae/torch/checkpoint.h"
#include "train/options.h"
#include "train/ranks.h"

namespace sullae::train {

/// Float32 weights of parameters in 16 bits, by name.
using MasterWeights = std::map<std::string, torch::Tensor>;

/// A checkpoint that rank 0 has found.
struct LoadedCheckpoint {
  std::filesystem::path file;  ///< on rank 0
  /// On rank 0: how the training goes on otherwise than it began; see configuration.h.
  std::string changed_settings;
  /// Made on every rank, of the whole model. On rank 0 it has the checkpoint's state, as the model
  /// has its weights. Null where the update is no GatheredUpdate, and loads the model itself.
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

/// What a checkpoint holds beside the model.
struct WholeState {
  torch::optim::Optimizer* optimizer = nullptr;
  MasterWeights weights;
};

/// They become rank 0's. Collective.
void broadcast_buffers(torch::nn::Module& model, const World& world);

/// Used by the training thread. enter() comes before all that is done in steps.
class WeightUpdate {
 public:
  virtual ~WeightUpdate() = default;

  /// Before the first step, and where another world follows: its ranks have equal weights.
  /// Collective.
  virtual void enter(const World& world) = 0;
  /// For learning rates.
  virtual torch::optim::Optimizer& optimizer() = 0;
  /// Whether gradients are averaged over the ranks, and a sample therefore counts as one of all of
  /// them.
  virtual bool averages_gradients() const = 0;
  /// How batches must come.
  virtual torch::ScalarType input_type() const = 0;

  virtual void zero_grad() = 0;
  /// Waits until gradients are everybody's, and divides them by `scale`. Returns whether they are
  /// finite: on every rank the same where they are averaged. Collective.
  virtual bool reduce(double scale) = 0;
  /// After reduce(). Collective.
  virtual void clip(double norm) = 0;
  virtual void step() = 0;
  /// After each step, also one that was skipped.
  virtual void step_ended() {}

  /// Weights and moments that ranks have changed apart are averaged, and buffers become rank 0's,
  /// so that what is tested and saved is everybody's, and a run that goes on from there goes on as
  /// this one. Collective.
  virtual void join_weights() {}
  /// Whether what was trained is in other hands, so that the ranks which are left go on where one
  /// has ended: with rest(), enter() and join_weights().
  virtual bool outlives_ranks() const { return false; }
  /// From here to join_weights() nobody waits for this rank, between two of its steps.
  virtual void rest() {}
  /// On rank 0 a checkpoint of the model to be written to `file`, or nothing, where ranks have
  /// written it together. `file` and `metadata` are rank 0's, and empty elsewhere. Collective.
  virtual std::optional<SerializedCheckpoint> save(const std::filesystem::path& file,
                                                   CheckpointMetadata metadata) = 0;
  /// The same without what is of the optimizer.
  virtual std::optional<SerializedCheckpoint> save_weights(const std::filesystem::path& file,
                                                           CheckpointMetadata metadata) = 0;
  /// On rank 0 the weights that a checkpoint holds in the place of the model's. Collective.
  virtual MasterWeights master_weights() = 0;
  /// Takes up what the checkpoint holds, beside the model where that was taken already. Collective.
  virtual void load(const LoadedCheckpoint& loaded) = 0;
  /// A line on what was seen of the training so far; empty where there is nothing to say.
  virtual std::string observed() const { return {}; }
  /// Time spent waiting for other ranks.
  double seconds_waiting() const { return waiting_; }

 protected:
  double waiting_ = 0;
};

/// One whose state rank 0 has whole while it is saved and loaded.
class GatheredUpdate : public WeightUpdate {
 public:
  /// `model` outlives this object.
  explicit GatheredUpdate(torch::nn::Module& model) : model_(model) {}

  std::optional<SerializedCheckpoint> save(const std::filesystem::path& file,
                                           CheckpointMetadata metadata) final;
  std::optional<SerializedCheckpoint> save_weights(const std::filesystem::path& file,
                                                   CheckpointMetadata metadata) final;
  void load(const LoadedCheckpoint& loaded) final { scatter(*loaded.optimizer); }

  /// On rank 0 what a checkpoint holds. Collective.
  virtual WholeState gather() = 0;
  /// Takes the state of `loaded`, an optimizer of the whole model, as it is on rank 0. Collective.
  virtual void scatter(torch::optim::Optimizer& loaded) = 0;
  /// The model becomes what master_weights() are, which were set from without.
  virtual void take_master_weights() {}

 protected:
  torch::nn::Module& model_;
};

/// Every rank has all weights and the whole optimizer, and averages gradients, or with --local-sgd
/// weights.
std::unique_ptr<GatheredUpdate> make_replicated_update(torch::nn::Module& model,
                                                       const TrainOptions& options);
/// Each rank has a part of the optimizer's state, and of a model that HasUnits: --shard.
std::unique_ptr<WeightUpdate> make_sharded_update(torch::nn::Module& model,
                                                  const TrainOptions& options);

/// Each rank has parts of layers, or some layers, and the optimizer of these: a model that
/// is_in_parts(), --mesh.
std::unique_ptr<WeightUpdate> make_parts_update(torch::nn::Module& model,
                                                const TrainOptions& options, const Ranks& ranks);

/// Whether this job has parameter servers.
bool has_parameter_servers();
/// They have weights and optimizer, and each rank steps as far ahead of others as they allow.
std::unique_ptr<WeightUpdate> make_server_update(torch::nn::Module& model,
                                                 const TrainOptions& options);
/// They have the rows of a model that is a HasTable: --ps-mode ps-sparse.
std::unique_ptr<WeightUpdate> make_sparse_server_update(torch::nn::Module& model,
                                                        const TrainOptions& options);

/// Whether what make_update() makes is a GatheredUpdate.
bool is_gathered(torch::nn::Module& model, const TrainOptions& options);
/// By the options, and by what the job has; `ranks` may be null where each has the whole model.
/// Throws InputError where those, and whether the model is made of units, do not go together.
std::unique_ptr<WeightUpdate> make_update(torch::nn::Module& model, const TrainOptions& options,
                                          const Ranks* ranks);

}  // namespace sullae::train

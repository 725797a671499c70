// A model in stages, each on a rank, through which the parts of a batch go one after the other.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sullae/parallel/mesh.h"
#include "sullae/parallel/parts_optimizer.h"
#include "sullae/parallel/sharded_optimizer.h"
#include "sullae/sullae.h"
#include "sullae/torch/checkpoint.h"

namespace sullae {
namespace pipeline {
class Stages;
}  // namespace pipeline

/// A part of a model: what it computes, and the module whose parameters it computes with.
struct PipelineStage {
  PipelineStage(std::shared_ptr<torch::nn::Module> with,
                std::function<torch::Tensor(const torch::Tensor&)> compute, std::string called = {})
      : module(std::move(with)), forward(std::move(compute)), name(std::move(called)) {}
  /// Of a module whose forward() takes a tensor and returns one.
  template <class Contained>
  PipelineStage(torch::nn::ModuleHolder<Contained> holder,  // NOLINT(google-explicit-constructor)
                std::string called = {})
      : module(holder.ptr()),
        forward([net = holder.ptr()](const torch::Tensor& x) -> torch::Tensor {
          return net->forward(x);
        }),
        name(std::move(called)) {}

  std::shared_ptr<torch::nn::Module> module;
  std::function<torch::Tensor(const torch::Tensor&)> forward;
  /// Stands, with a dot, before the names of its parameters, which must differ between all stages,
  /// unless they are tied; empty for nothing.
  std::string name;
};

struct PipelineOptions {
  /// "gpipe": all forwards, then all backwards. "1f1b": each backward as soon as it can be, so that
  /// at most as many micro-batches are alive as there are ranks. "interleaved": the same with
  /// several stages a rank, for a bubble that is as many times smaller, and as many times more
  /// messages.
  std::string schedule = "1f1b";
  /// The parts of a batch. The share of the time in which ranks idle is (ranks - 1) /
  /// (micro_batches + ranks - 1).
  int micro_batches = 4;
  /// Names of parameters that are one, such as an embedding and the head that uses it, on whatever
  /// ranks they are: a group may be a single name that several ranks have. All begin as the first
  /// of them.
  std::vector<std::vector<std::string>> tied = {};
};

/// Ranks as stages of one model. What is trained is what one process trains that has the whole of
/// it, where samples do not depend on each other, as they do in batch norm.
///
///   Pipeline pipe(divide(layers, sample, mesh), mesh["pp"], {.micro_batches = 8});
///   torch::optim::Adam adam(pipe.parameters().values());
///   ...
///   adam.zero_grad();
///   const double loss = pipe.step(inputs, targets, cross_entropy);
///   adam.step();
///
/// With several stages a rank ("interleaved"), rank r of P has stages r, P + r, 2P + r, …, in this
/// order. Between stages there is one tensor, of any shape and type, which may differ between
/// micro-batches. Gradients add up in the order of the micro-batches, as in one process that
/// accumulates them. With DistributedOptimizer over the ranks that have the same stages, give it
/// backward_passes_per_step = micro_batches; ShardedOptimizer, too, and own_buckets =
/// tied_parameters().
///
/// What a stage throws ends the step, and is thrown on all ranks, with the stage's number; the
/// pipeline can go on with the next step then. Used by the thread that trains; all calls but those
/// that say otherwise are collective.
class Pipeline {
 public:
  /// The mean loss over the samples of a micro-batch: of the last stage's output, and its targets.
  using Loss =
      std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& target)>;

  /// Throws InputError for stages and schedules that cannot be and for names that several stages
  /// have, MismatchError where ranks give different ones, on all ranks alike.
  Pipeline(std::vector<PipelineStage> stages, const World& world, PipelineOptions options = {});
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Forward and backward of a batch; returns the mean loss over its samples, on every rank.
  /// `inputs` are the first rank's and `targets` the last one's, divided along dimension 0 as
  /// evenly as can be; those of others are ignored. There are as many targets as inputs, or, where
  /// the parts are equal, as many for each input. Gradients are multiplied by `loss_scale`.
  /// `micro_batches`, the same on all ranks, are those of this batch, which may have fewer samples
  /// than others; 0: PipelineOptions::micro_batches.
  double step(const torch::Tensor& inputs, const torch::Tensor& targets, const Loss& loss,
              double loss_scale = 1, int micro_batches = 0);
  /// Gradients of parameters that are tied become their sum: to be called before the optimizer's
  /// step() where there are any, and after DistributedOptimizer::synchronize(). A step() after one
  /// that lacked it throws Error: what is to be added up over several steps is a batch with more
  /// micro-batches.
  void synchronize_tied();
  /// The same of gradients that `optimizer`, of parameters(), has divided among the ranks that have
  /// the same stages; after its synchronize(), which it calls. Its own_buckets are
  /// tied_parameters(); throws InputError where these are not.
  void synchronize_tied(ShardedOptimizer& optimizer);
  /// Of this rank's parameters that are trained, the names of those that are tied. Not collective.
  std::set<std::string> tied_parameters() const;
  /// Without gradients: the last stage's outputs, on its rank; undefined on others.
  torch::Tensor forward(const torch::Tensor& inputs, int micro_batches = 0);

  /// This rank's, by their names. Not collective.
  torch::OrderedDict<std::string, torch::Tensor> parameters() const;
  /// Of all stages: training or evaluation. Not collective.
  void train(bool on = true);
  /// After synchronize_tied(): scales gradients so that their norm over the whole model is at most
  /// `max_norm`. Returns the norm before. Where stages have tensor parallel layers, `tensor` is
  /// their world; throws InputError without it.
  double clip_grad_norm(double max_norm);
  double clip_grad_norm(double max_norm, const World& tensor);
  /// The same of a sharded optimizer's gradients; collective over its ranks, too.
  double clip_grad_norm(double max_norm, ShardedOptimizer& optimizer);
  double clip_grad_norm(double max_norm, ShardedOptimizer& optimizer, const World& tensor);

  /// The parameters and buffers of all stages, by their names, as a module, which is as large as
  /// all of them: on `root`; null on others. Checkpoints need none, see save_checkpoint() below.
  std::shared_ptr<torch::nn::Module> gather(int root = 0);
  /// The opposite: each rank takes those of its stages from `whole`, which every rank gives (or
  /// loads). Throws InputError for what is missing or does not fit, before anything is taken. Not
  /// collective.
  void load(const torch::nn::Module& whole);

  /// Micro-batches, times stages, whose activations this rank kept at the same time in the last
  /// step, at most.
  int most_alive() const;

 private:
  friend void save_checkpoint(const std::filesystem::path&, const Pipeline&, const PartsOptimizer&,
                              const World&, const CheckpointOptions&);
  friend void save_weights(const std::filesystem::path&, const Pipeline&, const World&,
                           const CheckpointOptions&, const std::map<std::string, torch::Tensor>&);
  friend CheckpointMetadata load_checkpoint(const std::filesystem::path&, Pipeline&,
                                            const PartsOptimizer&, const World&);
  friend CheckpointMetadata load_weights(const std::filesystem::path&, Pipeline&, const World&);
  friend void save_checkpoint(const std::filesystem::path&, const Pipeline&, ShardedOptimizer&,
                              const World&, const CheckpointOptions&);
  friend void save_weights(const std::filesystem::path&, const Pipeline&, ShardedOptimizer&,
                           const World&, const CheckpointOptions&);
  friend CheckpointMetadata load_checkpoint(const std::filesystem::path&, Pipeline&,
                                            ShardedOptimizer&, const World&);
  const pipeline::Stages& stages() const;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// save_checkpoint() of a model in stages: each rank writes its own, as with a ShardedOptimizer
/// (see there), and the file is that of one process whose model registers the stages' parameters by
/// their names, one stage after the other; tied ones are there once for each of their names.
/// Buffers travel by way of rank 0. Leave `options.weights` empty. Collective over `world`, whose
/// ranks have the whole model together, once or more often: the pipeline's, or, of stages that have
/// layers in parts, mesh.across({"pp", "tp"}). Throws InputError for one whose ranks do not, Error
/// for what any rank has met, on every rank.
void save_checkpoint(const std::filesystem::path& file, const Pipeline& pipeline,
                     const PartsOptimizer& optimizer, const World& world,
                     const CheckpointOptions& options = {});
/// The same without the optimizer's state: what a model is served from. `masters`: see
/// PartsOptimizer.
void save_weights(const std::filesystem::path& file, const Pipeline& pipeline, const World& world,
                  const CheckpointOptions& options = {},
                  const std::map<std::string, torch::Tensor>& masters = {});

/// The opposite of save_checkpoint(), of a checkpoint of any number of stages and ranks, of which
/// rank 0 reads the file part by part. Collective over `world`, as above. Throws as
/// load_checkpoint() of one process, on every rank.
CheckpointMetadata load_checkpoint(const std::filesystem::path& file, Pipeline& pipeline,
                                   const PartsOptimizer& optimizer, const World& world);
/// Weights alone.
CheckpointMetadata load_weights(const std::filesystem::path& file, Pipeline& pipeline,
                                const World& world);

/// The same of a pipeline whose optimizer is sharded among the ranks that have the same stages,
/// each of which writes its pieces. Collective over `world`, in which are all that have stages and
/// pieces: the mesh's.
void save_checkpoint(const std::filesystem::path& file, const Pipeline& pipeline,
                     ShardedOptimizer& optimizer, const World& world,
                     const CheckpointOptions& options = {});
void save_weights(const std::filesystem::path& file, const Pipeline& pipeline,
                  ShardedOptimizer& optimizer, const World& world,
                  const CheckpointOptions& options = {});
CheckpointMetadata load_checkpoint(const std::filesystem::path& file, Pipeline& pipeline,
                                   ShardedOptimizer& optimizer, const World& world);

struct DivisionOptions {
  /// Stages that each rank gets.
  int stages_per_rank = 1;
  /// What each rank's parameters, their gradients, the optimizer's state and the activations that
  /// it keeps may take, of which each of its stages has an equal share; 0 for any number.
  std::size_t memory_bytes = 0;
  /// Bytes for each of a parameter's: with Adam itself, its gradient and two moments.
  double bytes_per_parameter_byte = 4;
  /// Micro-batches whose activations a rank keeps at the same time; 0 for as many as there are
  /// ranks.
  int alive = 0;
};

/// This rank's stages of `layers`, divided so that the slowest stage takes as little time as can
/// be, as measured on rank 0 with `sample`, a micro-batch, forward and backward. Names of
/// parameters remain those in `layers`, which may be dropped. Collective. Throws InputError where
/// there are fewer layers than stages, or no division fits the memory, on every rank.
std::vector<PipelineStage> divide(const torch::nn::Sequential& layers, const torch::Tensor& sample,
                                  const World& world = sullae::world(),
                                  const DivisionOptions& options = {});
/// The same for all pipelines of a mesh along `dimension`, which are divided alike, as measured on
/// its first rank: stages that belong together have the same layers. Collective over the mesh.
std::vector<PipelineStage> divide(const torch::nn::Sequential& layers, const torch::Tensor& sample,
                                  const Mesh& mesh, const std::string& dimension = "pp",
                                  const DivisionOptions& options = {});

}  // namespace sullae

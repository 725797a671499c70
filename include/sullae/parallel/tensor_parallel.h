// Layers whose weights are divided among ranks (M. Shoeybi et al., 2019: Megatron-LM).
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sullae/parallel/differentiable_collectives.h"
#include "sullae/parallel/index_range.h"
#include "sullae/parallel/parts_optimizer.h"
#include "sullae/parallel/sharded_units.h"
#include "sullae/sullae.h"
#include "sullae/torch/checkpoint.h"
#include "sullae/torch/precision.h"

namespace sullae {

// All ranks of `world` give a layer the same input, compute alike around it, and call layers in the
// same order. Made after the same torch::manual_seed(), a layer begins with the weights that it
// begins with on one rank, whatever the number of ranks: the whole is made, and each rank keeps its
// part. What is trained is what one process trains, but for rounding.
//
// Such a model goes with DistributedOptimizer over the ranks that have the same parts:
//
//   Mesh mesh(world, {{"dp", 2}, {"tp", 2}});
//   Net model(mesh["tp"]);
//   DistributedOptimizer optimizer(adam, model->named_parameters(), {}, mesh["dp"]);
//
// Used by one thread of a rank.

/// A part of a parameter: these ranges of `whole` along `dim`, one after the other.
struct ParameterPart {
  std::int64_t dim = 0;
  std::int64_t whole = 0;
  std::vector<IndexRange> ranges;  ///< ascending; as many on every rank
};

/// A layer that has parts of parameters.
class TensorParallelLayer {
 public:
  virtual ~TensorParallelLayer() = default;
  /// By the names of the layer's own parameters; those that are not among them are whole, and alike
  /// on all ranks.
  virtual std::map<std::string, ParameterPart> parts() const = 0;
  /// Those that have the parts; null for a layer that was not divided.
  virtual const World* ranks() const = 0;
};

struct ColumnParallelLinearOptions {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = true;
  /// All outputs on every rank; else each has its own.
  bool gather_output = false;
};

/// A linear layer of which each rank computes a part of the outputs. [*, in_features] → [*, this
/// rank's out_features].
class ColumnParallelLinearImpl : public torch::nn::Module, public TensorParallelLayer {
 public:
  explicit ColumnParallelLinearImpl(ColumnParallelLinearOptions options,
                                    const World& world = sullae::world());
  torch::Tensor forward(const torch::Tensor& input);
  std::map<std::string, ParameterPart> parts() const override;
  const World* ranks() const override { return &world_; }

  torch::Tensor weight;  // [this rank's out_features, in_features]
  torch::Tensor bias;    // [this rank's out_features]

 private:
  ColumnParallelLinearOptions options_;
  World world_;
};
TORCH_MODULE(ColumnParallelLinear);

struct RowParallelLinearOptions {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = true;
  /// The input is this rank's part, as a column parallel layer gives it; else it is whole.
  bool input_is_parallel = true;
};

/// A linear layer of which each rank has a part of the inputs. [*, this rank's in_features] → [*,
/// out_features].
class RowParallelLinearImpl : public torch::nn::Module, public TensorParallelLayer {
 public:
  explicit RowParallelLinearImpl(RowParallelLinearOptions options,
                                 const World& world = sullae::world());
  torch::Tensor forward(const torch::Tensor& input);
  std::map<std::string, ParameterPart> parts() const override;
  const World* ranks() const override { return &world_; }

  torch::Tensor weight;  // [out_features, this rank's in_features]
  torch::Tensor bias;    // [out_features]

 private:
  RowParallelLinearOptions options_;
  World world_;
};
TORCH_MODULE(RowParallelLinear);

/// An embedding of which each rank has a part of the rows. Whole numbers [*] → [*, embedding_dim].
class VocabParallelEmbeddingImpl : public torch::nn::Module,
                                   public TensorParallelLayer,
                                   public StaysInFloat32 {
 public:
  VocabParallelEmbeddingImpl(std::int64_t num_embeddings, std::int64_t embedding_dim,
                             const World& world = sullae::world());
  torch::Tensor forward(const torch::Tensor& indices);
  std::map<std::string, ParameterPart> parts() const override;
  const World* ranks() const override { return &world_; }

  torch::Tensor weight;  // [this rank's num_embeddings, embedding_dim]

 private:
  std::int64_t num_embeddings_;
  World world_;
};
TORCH_MODULE(VocabParallelEmbedding);

struct ParallelAttentionOptions {
  std::int64_t embed_dim = 0;
  std::int64_t num_heads = 1;
  /// Each place sees none that comes later.
  bool causal = false;
};

/// Self-attention of which each rank has a part of the heads, at least one. [batch, time,
/// embed_dim] → the same. One allreduce each way.
class ParallelAttentionImpl : public torch::nn::Module, public TensorParallelLayer {
 public:
  explicit ParallelAttentionImpl(ParallelAttentionOptions options,
                                 const World& world = sullae::world());
  /// `is_padding`, [batch, time] bool, are places that nobody looks at, of which there must be
  /// others; undefined for none.
  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& is_padding = {});
  std::map<std::string, ParameterPart> parts() const override;
  const World* ranks() const override { return &world_; }

  torch::Tensor qkv_weight;  // [3 × this rank's, embed_dim]: queries, keys, values
  torch::Tensor qkv_bias;
  torch::Tensor out_weight;  // [embed_dim, this rank's]
  torch::Tensor out_bias;

 private:
  ParallelAttentionOptions options_;
  World world_;
};
TORCH_MODULE(ParallelAttention);

/// torch::nn::functional::cross_entropy where each rank has the scores of its part of `classes`:
/// [*, this rank's classes] and targets [*] int64, of which those that are `ignore_index` do not
/// count. The mean, on every rank. Two allreduces of a number or two a target, none in backward.
torch::Tensor vocab_parallel_cross_entropy(const torch::Tensor& scores, const torch::Tensor& target,
                                           std::int64_t classes, std::int64_t ignore_index = -100,
                                           const World& world = sullae::world());

/// Of all parameters of `module` that are parts, by name.
std::map<std::string, ParameterPart> parts_of(const torch::nn::Module& module);
/// The ranks that have its layers' parts; none where no layer is in parts. Throws InputError for
/// layers that different ranks have.
std::optional<World> world_of_parts(const torch::nn::Module& module);
/// Copies of all parameters, whole, as one process has them: what CheckpointOptions::weights takes.
/// Collective over `world`, the layers'.
std::map<std::string, torch::Tensor> gather_parameters(const torch::nn::Module& module,
                                                       const World& world);
/// Each rank takes its parts of `whole`. Throws InputError for a name or shape that is missing or
/// does not fit; nothing is taken then.
void load_parameters(torch::nn::Module& module, const std::map<std::string, torch::Tensor>& whole);
/// Scales gradients so that their norm over the whole model is at most `max_norm`. Returns the norm
/// before. After synchronize(). Collective over `world`, the layers'. `masters`: see
/// PartsOptimizer.
double clip_grad_norm(torch::nn::Module& module, double max_norm, const World& world,
                      const std::map<std::string, torch::Tensor>& masters = {});

/// save_checkpoint() of a module with layers in parts: each rank writes its own, as with a
/// ShardedOptimizer (see there), and the file is that of one process. Ranks may also have different
/// layers: what several have by one name is one. Buffers travel by way of rank 0, and are those of
/// the first that has them. Leave `options.weights` empty. Collective over `world`, whose ranks
/// have the whole model together, once or more often: the layers'. Throws InputError for one whose
/// ranks do not, Error for what any has met, on every rank.
void save_checkpoint(const std::filesystem::path& file, const torch::nn::Module& module,
                     const PartsOptimizer& optimizer, const World& world,
                     const CheckpointOptions& options = {});
/// The same without the optimizer's state: what a model is served from. `masters` as above.
void save_weights(const std::filesystem::path& file, const torch::nn::Module& module,
                  const World& world, const CheckpointOptions& options = {},
                  const std::map<std::string, torch::Tensor>& masters = {});

/// The opposite of save_checkpoint(), of a checkpoint of any number of ranks, sharded or not, which
/// rank 0 reads part by part. Masters get what the checkpoint holds, and parameters that have one
/// nothing. Collective over `world`. Throws as load_checkpoint() of one process, on every rank.
CheckpointMetadata load_checkpoint(const std::filesystem::path& file, torch::nn::Module& module,
                                   const PartsOptimizer& optimizer, const World& world);
/// Weights alone.
CheckpointMetadata load_weights(const std::filesystem::path& file, torch::nn::Module& module,
                                const World& world);

// The same of a model whose optimizer is sharded among the ranks that have the same parts:
//
//   ShardedOptimizer optimizer(model->named_parameters(), make, {.stage = 2}, mesh["dp"]);
//   ...
//   clip_grad_norm(*model, optimizer, 1.0, world);
//
// Collective over `world`, in which are all that have parts and pieces: the mesh's.

/// See ShardedOptimizer::unscale(); whether gradients are finite on all.
bool unscale(ShardedOptimizer& optimizer, double scale, const World& world);
/// After synchronize(), which it calls. Returns the norm before.
double clip_grad_norm(const torch::nn::Module& module, ShardedOptimizer& optimizer, double max_norm,
                      const World& world);
/// Each rank writes its pieces of its parts. Throws InputError, on every rank, where ranks have not
/// all of them, and for an optimizer of other parameters than the module's.
void save_checkpoint(const std::filesystem::path& file, const torch::nn::Module& module,
                     ShardedOptimizer& optimizer, const World& world,
                     const CheckpointOptions& options = {});
void save_weights(const std::filesystem::path& file, const torch::nn::Module& module,
                  ShardedOptimizer& optimizer, const World& world,
                  const CheckpointOptions& options = {});
CheckpointMetadata load_checkpoint(const std::filesystem::path& file, torch::nn::Module& module,
                                   ShardedOptimizer& optimizer, const World& world);
/// Of units whose modules, which `module` has registered, have layers in parts.
CheckpointMetadata load_weights(const std::filesystem::path& file, torch::nn::Module& module,
                                ShardedUnits& units, const World& world);

}  // namespace sullae

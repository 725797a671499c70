// An optimizer whose state, and gradients, are divided among the ranks.
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/ordered_dict.h>
#include <torch/types.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "sullae/sullae.h"
#include "sullae/torch/checkpoint.h"

namespace sullae {

class ShardedUnits;
struct ShardedWithin;
class UnitParameters;

struct ShardedOptimizerOptions {
  /// 1: each rank keeps the optimizer's state of its part of the parameters. 2: and their
  /// gradients. (ZeRO: S. Rajbhandari et al., 2020.) With Adam in float32 and P ranks a parameter
  /// takes 8 + 8/P and 4 + 12/P bytes instead of 16.
  int stage = 2;
  /// See DistributedOptimizerOptions. Gradients of several passes are kept whole, up to the last.
  int backward_passes_per_step = 1;
  /// Gradients are reduced, and parameters gathered, in buckets of about this size.
  std::size_t bucket_bytes = std::size_t{4} << 20;
  /// Reduces while backward goes on.
  bool overlap = true;
  /// Names of parameters whose division among ranks is to depend on their size alone: each has a
  /// bucket of its own. Where stages of a model share them, their gradients can be added up piece
  /// by piece.
  std::set<std::string> own_buckets = {};
};

/// What DistributedOptimizer does, with less memory: gradients are averaged over ranks, each rank
/// updates its part of the parameters, and all are given the result. As with DistributedOptimizer
/// what is trained is what one process trains, and ranks may lack gradients.
///
///   ShardedOptimizer optimizer(model->named_parameters(), [](const auto& pieces) {
///     return std::make_unique<sullae::Adam>(pieces.values(), 1e-3);
///   });
///   ...
///   optimizer.zero_grad();
///   loss.backward();
///   optimizer.step();
///
/// The parts are of elements and not of tensors, so that all ranks have as much, and the optimizer
/// sees of each parameter that this rank has a part of a piece, by the parameter's name, with as
/// many dimensions, of which all but the last are 1. So it must treat each element by itself: SGD,
/// Adam, AdamW, Adagrad, RMSprop. Weights in 16 bits are updated in float32, of which each rank
/// keeps its part alone.
///
/// Gradients are gone from the parameters once they are reduced; clip with clip_grad_norm(). Sparse
/// gradients are refused. Parameters may be on a GPU, all on one: gradients and weights travel as
/// CUDA tensors do (sullae/torch.h). Used by the thread that trains. Errors of the background are
/// thrown by synchronize() and step().
class ShardedOptimizer {
 public:
  using Pieces = torch::OrderedDict<std::string, torch::Tensor>;
  /// Makes the optimizer of these pieces, all and no others, in groups as it likes; the same on
  /// every rank. It is called again by gather() and scatter(), with whole parameters, by
  /// save_checkpoint() and load_checkpoint(), with parameters that have shapes and types alone (on
  /// the device "meta"), and with one number by another name.
  using Maker = std::function<std::unique_ptr<torch::optim::Optimizer>(const Pieces& pieces)>;

  /// Parameters begin as rank 0's, as DDP's do, and move to memory of this object's, which they
  /// keep alive; buffers are broadcast_parameters()' business. Collective. Throws InputError for
  /// options that cannot be and for optimizers that need whole tensors (LARS, LAMB), MismatchError
  /// on every rank where names, shapes or types differ.
  ShardedOptimizer(const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                   const Maker& make, ShardedOptimizerOptions options = {},
                   const World& world = sullae::world());
  /// Of the units' parameters: stage 3. One at a time. Throws InputError as above, and where there
  /// are no units.
  ShardedOptimizer(ShardedUnits& units, const Maker& make);
  ~ShardedOptimizer();
  ShardedOptimizer(const ShardedOptimizer&) = delete;
  ShardedOptimizer& operator=(const ShardedOptimizer&) = delete;

  /// Waits until gradients are reduced; optimizer()'s pieces have them then.
  void synchronize();
  /// After synchronize(), which it calls: scales gradients so that their norm over all parameters
  /// is at most `max_norm`. Returns the norm before. Collective.
  double clip_grad_norm(double max_norm);
  /// After synchronize(), which it calls: divides gradients by `scale`. Returns whether all are
  /// finite, the same on every rank. Collective.
  bool unscale(double scale);
  /// synchronize(), unless that was done, the optimizer's own step, and the other ranks' results.
  /// Collective.
  void step();
  /// Removes all gradients, at any moment.
  void zero_grad();

  /// That of this rank's pieces: for learning rates, and to look at. It is stepped by step() alone.
  torch::optim::Optimizer& optimizer();
  /// What it updates, by the names of parameters; after synchronize() these have gradients.
  Pieces pieces() const;

  /// What save_checkpoint() takes, whatever the number of ranks.
  struct Whole {
    /// Of the whole parameters, with the whole state.
    std::unique_ptr<torch::optim::Optimizer> optimizer;
    /// By name: in float32, of parameters in 16 bits; of units, of all parameters.
    std::map<std::string, torch::Tensor> weights;
  };
  /// On `root`; nothing on others. Collective.
  Whole gather(int root = 0);
  /// Its weights alone. Collective.
  std::map<std::string, torch::Tensor> master_weights(int root = 0);
  /// The opposite: `whole`, of all parameters in their order, is root's, and ignored elsewhere.
  /// Options are taken over, too. Collective. Throws InputError, on every rank, for an optimizer of
  /// another kind or of other parameters.
  void scatter(torch::optim::Optimizer* whole, int root = 0);
  /// Each rank takes its parts of `weights`, by name, for what it updates: of parameters that were
  /// cast to 16 bits, the weights before. Throws InputError for one of another shape.
  void take_weights(const torch::OrderedDict<std::string, torch::Tensor>& weights);

 private:
  friend ShardedWithin within(ShardedOptimizer& optimizer);
  class Impl;
  std::shared_ptr<UnitParameters> units_;  // null where there are none
  std::unique_ptr<Impl> impl_;
};

/// save_checkpoint() of a model whose optimizer is sharded: each rank writes its parts, into one
/// file where it sees that, else by way of rank 0. The file is the same as of one process, and
/// appears when all of it is on the disk; a rank that dies before leaves the old one. Beside what
/// training takes a rank needs the state of one parameter at a time. Buffers, and parameters that
/// are not trained, also of units, are rank 0's. `module` may lack the parameters of units, which
/// go by their units' names. Leave `options.weights` empty. Collective, over the optimizer's ranks
/// and their replicas. Throws Error on every rank, with what any has met.
void save_checkpoint(const std::filesystem::path& file, const torch::nn::Module& module,
                     ShardedOptimizer& optimizer, const CheckpointOptions& options = {});

/// The same without the optimizer's state: what a model is served from.
void save_weights(const std::filesystem::path& file, const torch::nn::Module& module,
                  ShardedOptimizer& optimizer, const CheckpointOptions& options = {});

/// The opposite of save_checkpoint(), of a checkpoint of any number of ranks, sharded or not, which
/// rank 0 reads part by part: every rank has the model, and its parts of the rest. Collective, over
/// the optimizer's ranks and their replicas. Throws as load_checkpoint() of one process, on every
/// rank.
CheckpointMetadata load_checkpoint(const std::filesystem::path& file, torch::nn::Module& module,
                                   ShardedOptimizer& optimizer);

}  // namespace sullae

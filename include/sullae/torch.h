// Sullae for libtorch: averaged gradients, equal starts, shards of the data, safe checkpoints.
//
//   sullae::init();
//   auto device = sullae::local_device();
//   Net model;
//   model->to(device);
//   torch::optim::SGD sgd(model->parameters(), 0.01 * sullae::size());
//   sullae::DistributedOptimizer optimizer(sgd, model->named_parameters());
//   sullae::broadcast_parameters(*model, /*root=*/0);
//   auto sampler = sullae::DistributedSampler(dataset.size());
//
// Everything here takes the world that init() joined unless it is given another.
#pragma once

#include <torch/data/samplers/base.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sullae/sullae.h"
#include "sullae/torch/async.h"       // IWYU pragma: export
#include "sullae/torch/checkpoint.h"  // IWYU pragma: export
#include "sullae/torch/optimizers.h"  // IWYU pragma: export
#include "sullae/torch/parallel.h"    // IWYU pragma: export
#include "sullae/torch/precision.h"   // IWYU pragma: export

namespace sullae {

/// The GPU of this rank (by its local rank) where libtorch sees one, else the CPU.
torch::Device local_device(const World& world = sullae::world());

// Collectives on tensors.
// Tensors of float32/64, float16, bfloat16, int8/32/64, uint8 and bool, on any device and with any
// strides; those that are not contiguous in host memory are copied there and back. Call them on
// every rank in the same order.

/// In place; the same shape on every rank.
void allreduce(const torch::Tensor& tensor, ReduceOp op = ReduceOp::sum,
               const World& world = sullae::world());
/// In place, in the background; see World::allreduce_async. The tensor must be contiguous and in
/// host memory, and is kept alive until the handle is done. Throws InputError otherwise.
Handle allreduce_async(const torch::Tensor& tensor, ReduceOp op = ReduceOp::sum,
                       const AsyncOptions& options = {}, const World& world = sullae::world());
/// In place.
void broadcast(const torch::Tensor& tensor, int root, const World& world = sullae::world());
/// Every rank's tensor, concatenated along dimension 0 in the order of ranks. Dimension 0 may
/// differ between ranks, the others may not.
torch::Tensor allgather(const torch::Tensor& tensor, const World& world = sullae::world());
/// Reduces tensors of the same shape and returns this rank's part: dimension 0 is divided among the
/// ranks, and must be a multiple of their number.
torch::Tensor reducescatter(const torch::Tensor& tensor, ReduceOp op = ReduceOp::sum,
                            const World& world = sullae::world());
/// Sends the r-th of size() equal parts along dimension 0 to rank r and returns what arrives, in
/// the order of ranks.
torch::Tensor alltoall(const torch::Tensor& tensor, const World& world = sullae::world());

// Messages between two ranks; see World::send. A tensor is received with the shape that it was sent
// with, or any of as many elements.

/// `tensor` may be changed when it returns.
void send(const torch::Tensor& tensor, int to, int tag = 0, const World& world = sullae::world());
/// Into `tensor`. Returns the rank that sent it; `from` may be kAnySource.
int receive(const torch::Tensor& tensor, int from, int tag = 0,
            const World& world = sullae::world());
/// In the background. The tensor must be contiguous and in host memory, and is kept alive until the
/// handle is done, up to which a sent one must not change. Throw InputError otherwise.
Handle send_async(const torch::Tensor& tensor, int to, int tag = 0,
                  const World& world = sullae::world());
Handle receive_async(const torch::Tensor& tensor, int from, int tag = 0,
                     const World& world = sullae::world());

/// The weighted mean over all ranks of each metric. `weight` is what this rank's values stand for,
/// e.g. its number of samples: with 0 they count for nothing, and where all ranks have 0 the mean
/// is no number. Throws MismatchError on every rank where their names differ.
std::map<std::string, double> average_metrics(const std::map<std::string, double>& metrics,
                                              double weight = 1.0,
                                              const World& world = sullae::world());

// Equal starts

/// Every parameter and buffer of `module` becomes root's.
void broadcast_parameters(torch::nn::Module& module, int root,
                          const World& world = sullae::world());
/// The optimizer's state and options become root's. The parameters must be the same, in the same
/// order, on every rank.
void broadcast_optimizer_state(torch::optim::Optimizer& optimizer, int root,
                               const World& world = sullae::world());

// Training

struct DistributedOptimizerOptions {
  /// average, so that P ranks with batches of B/P do what one does with B; sum; or adasum, by which
  /// each parameter's gradients are combined so that the learning rate need not grow with the ranks
  /// (sparse gradients then travel as dense ones).
  ReduceOp op = ReduceOp::average;
  /// Backward passes whose gradients add up locally before they are reduced.
  int backward_passes_per_step = 1;
  /// Gradients are reduced in buckets of about this size, while backward goes on.
  std::size_t bucket_bytes = std::size_t{4} << 20;
  /// How dense float32 gradients travel: "float16", "bfloat16", "topk:0.01" or a policy of one's
  /// own; see sullae/compression.h. Empty sends them as they are.
  std::string compression = {};
  /// Sparse gradients travel as dense ones: faster where most rows of a table are touched.
  bool sparse_as_dense = false;
  /// Reduces buckets while backward goes on; with false DistributedOptimizer begins with
  /// synchronize() or step(), as it has to where gradients are made behind backward(), such as
  /// those of master weights.
  bool overlap = true;
  /// backward() itself waits, the last of backward_passes_per_step, as PyTorch's
  /// DistributedDataParallel does: when it returns, gradients are averages, which may be looked at,
  /// clipped or unscaled. What fails then is thrown by synchronize(), step() or the next
  /// backward(). With false synchronize() and step() wait, so that what the program does in between
  /// goes on while gradients travel: they must be left alone until then, also by libtorch's
  /// clip_grad_norm_(), whose changes are not seen.
  bool after_backward = true;
};

/// What DistributedOptimizer does with gradients, for whoever steps otherwise: with an optimizer of
/// another language, or in a loop of his own. See there, also for threads and errors.
class DistributedGradients {
 public:
  /// See DistributedOptimizer; `parameters` are all that will be updated.
  DistributedGradients(const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                       const DistributedOptimizerOptions& options = {},
                       const World& world = sullae::world());
  ~DistributedGradients();
  DistributedGradients(const DistributedGradients&) = delete;
  DistributedGradients& operator=(const DistributedGradients&) = delete;

  /// Waits until every gradient is reduced; .grad() then holds the average.
  void synchronize();
  /// The parameters were updated: the next synchronize() reduces again.
  void stepped();
  /// Removes all gradients, at any moment.
  void zero_grad();
  /// Whether backward has reached a parameter since the last stepped().
  bool has_seen_gradients() const;
  /// From the next step on; the same on every rank.
  void set_backward_passes_per_step(int passes);
  /// See DistributedOptimizer::join(): `step` updates the parameters, `clear` removes what else is
  /// like a gradient.
  int join(const std::function<void()>& step, const std::function<void()>& clear);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

/// Averages gradients over all ranks around any optimizer.
///
/// The first step learns the order in which gradients become ready and which of them are sparse.
/// From then on gradients live in buckets in the segment that the host's ranks share, and each
/// bucket is reduced in the background as soon as its last gradient is ready, while backward
/// computes the others. A parameter that got no gradient on some ranks counts as zero there; one
/// that got none anywhere keeps none, as in one process. Sparse gradients (of embeddings) travel as
/// rows and indices and stay sparse. Buckets start in one order on every rank and nothing is
/// negotiated; where steps differ in which parameters have gradients, they are negotiated by name
/// for a while instead, so that a gradient that is missing holds back no other. A rank that steps
/// another optimizer than the others gets, as they do, a MismatchError with both buckets' names.
///
/// As in one process, gradients of several backward passes add up, whether they were planned
/// (backward_passes_per_step spares reductions) or not, and may be cleared at any moment: a
/// backward that is thrown away, a step that is left out, a discriminator's gradients from the
/// generator's loss. All ranks must do so alike. With after_backward = false gradients may be under
/// way between backward() and synchronize(), and must not be changed in another way: clip after
/// synchronize(). A gradient is memory of its bucket, which the next backward writes to: keep its
/// clone(). Where the parts of a batch are uneven, weight each rank's loss by its samples: loss *
/// (own samples * size() / all samples).
///
/// A parameter belongs to one DistributedOptimizer at a time. Used by the thread that trains.
/// Errors of the background are thrown by synchronize() and step().
class DistributedOptimizer {
 public:
  /// `optimizer` must outlive this object. `parameters` are those that it updates, all and no
  /// others: module->named_parameters(); with MixedPrecision those of the model. Collective. Throws
  /// InputError for a parameter of an element type that cannot be reduced, and for one of another
  /// DistributedOptimizer, MismatchError on every rank when their parameters are not the same.
  DistributedOptimizer(torch::optim::Optimizer& optimizer,
                       const torch::OrderedDict<std::string, torch::Tensor>& parameters,
                       DistributedOptimizerOptions options = {},
                       const World& world = sullae::world());
  ~DistributedOptimizer();
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  /// Waits until every gradient is reduced; .grad() then holds the average.
  void synchronize();
  /// synchronize(), unless that was done since the last backward, then the optimizer's own step.
  void step();
  /// The same for optimizers that evaluate the model themselves, as torch::optim::LBFGS does:
  /// `closure` clears gradients, runs backward() and returns the loss, which is averaged (or
  /// summed) over the ranks as gradients are, so that all search alike. Returns what the optimizer
  /// returns. Not with adasum, nor with join().
  torch::Tensor step(const torch::optim::Optimizer::LossClosure& closure);
  /// This rank has run out of data: until every rank has called join(), it takes part in the
  /// others' steps with gradients of zero (an average still divides by all ranks) and makes the
  /// same steps. What the program does around step(), such as clipping, or a schedule of the
  /// learning rate, it cannot repeat; nor more than one reduction a step: so in the end all ranks
  /// take the parameters and the optimizer's state of the last rank to join. Returns on every rank,
  /// with that rank.
  int join();
  /// Removes all gradients, at any moment. The optimizer's and the module's own zero_grad() work as
  /// well.
  void zero_grad();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

namespace detail {
// libtorch's samplers speak of c10::optional or std::optional, depending on its version: take the
// types from its own signatures.
template <class Class, class Argument>
Argument argument_of(void (Class::*)(Argument));
using OptionalSize = decltype(argument_of(&torch::data::samplers::Sampler<>::reset));
using OptionalBatch =
    decltype(std::declval<torch::data::samplers::Sampler<>&>().next(std::size_t{}));
}  // namespace detail

struct DistributedSamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;
  /// Leave out the samples that do not divide evenly; else some are repeated, so that all ranks
  /// have equally many.
  bool drop_last = false;
  /// How many consecutive samples go to one rank: with the rank's batch size here, step s of all
  /// ranks together covers samples [s × batch, (s+1) × batch) of the epoch's order, as one process
  /// would.
  std::size_t block = 1;
  /// 0 shuffles all samples; else within windows of about so many, for sets that are larger than
  /// memory. See data::OrderOptions.
  std::size_t shuffle_buffer = 0;
};

/// The indices that this rank trains on in an epoch; all ranks together cover the data set. Also a
/// libtorch sampler, for torch::data::make_data_loader, which takes a copy: copies share the epoch,
/// and each reset(), with which a loader begins an epoch, goes on to the next one behind one of
/// which samples were taken.
class DistributedSampler : public torch::data::samplers::Sampler<> {
 public:
  /// Shards `dataset_size` samples among the ranks of `world`.
  explicit DistributedSampler(std::size_t dataset_size, DistributedSamplerOptions options = {},
                              const World& world = sullae::world());
  /// The same for a given rank of a given size.
  DistributedSampler(std::size_t dataset_size, int rank, int size,
                     DistributedSamplerOptions options = {});

  /// Call it before each epoch: the order depends on the seed and the epoch, and is the same on
  /// every rank. A loader's copy takes it with its next reset().
  ///
  /// `taken`: so many samples of the epoch, of all ranks together, were trained on before, by this
  /// world or by one of another size (an elastic one, a run that goes on): what is divided among
  /// the ranks is the rest. Of an order whose first samples were taken in steps of equal batches,
  /// with `block` 1 or the rank's batch size, that is each of the others once.
  void set_epoch(std::size_t epoch, std::size_t taken = 0);
  /// This rank's indices of the current epoch, in order.
  const std::vector<std::size_t>& indices() const { return indices_; }

  void reset(detail::OptionalSize new_size = {}) override;
  detail::OptionalBatch next(std::size_t batch_size) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  void make_indices();

  std::size_t dataset_size_;
  int rank_;
  int size_;
  DistributedSamplerOptions options_;
  struct Epoch {
    std::size_t number = 0;
    std::size_t taken = 0;  // before
    std::size_t sets = 0;   // how often set_epoch() was called
  };
  std::shared_ptr<Epoch> epoch_ = std::make_shared<Epoch>();  // of all copies
  Epoch made_for_;                                            // when indices_ were made
  std::size_t position_ = 0;
  bool is_loaded_ = false;
  std::vector<std::size_t> indices_;
};

}  // namespace sullae

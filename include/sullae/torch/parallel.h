// More ways of training in parallel: weights averaged now and then instead of gradients at every
// step, batch norm over all ranks, and several replicas within one process.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "sullae/sullae.h"

namespace sullae {

/// Every floating-point parameter and buffer of `module` becomes the mean over all ranks; other
/// buffers become rank 0's. Local SGD (S. Stich, 2019) is: each rank steps an optimizer of its own,
/// and every k steps calls this. Collective.
void average_parameters(torch::nn::Module& module, const World& world = sullae::world());

/// The moments that `optimizer` keeps become the mean over all ranks (H. Yu et al., 2019), so that
/// ranks that step alone go on from the same point after average_parameters(), and one checkpoint
/// is enough for all. Takes the optimizers of this library, SGD, Adam and AdamW; throws InputError
/// for others. Collective.
void average_optimizer_state(torch::optim::Optimizer& optimizer,
                             const World& world = sullae::world());

/// BatchNorm2d over all ranks, for use in its place: the same options, parameters and buffers, by
/// the same names.
class SyncBatchNorm2dImpl
    : public torch::nn::NormImplBase<2, SyncBatchNorm2dImpl, torch::nn::BatchNormOptions> {
 public:
  using NormImplBase::NormImplBase;
  /// See sync_batch_norm(); the world of init().
  torch::Tensor forward(const torch::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

 private:
  void _check_input_dim(const torch::Tensor& input) override;
};

/// Normalises `input`, [batch, channels, …], with the mean and the variance over the batches of all
/// ranks together while `norm` is in training mode, as a process with the whole batch would;
/// forward and backward each make one allreduce. Ranks may have batches of different sizes.
/// Collective; all ranks must call it in the same order, from one thread each.
torch::Tensor sync_batch_norm(const torch::Tensor& input, torch::nn::BatchNorm2dImpl& norm,
                              const World& world = sullae::world());
torch::Tensor sync_batch_norm(const torch::Tensor& input, SyncBatchNorm2dImpl& norm,
                              const World& world = sullae::world());

TORCH_MODULE(SyncBatchNorm2d);

namespace detail {

/// Copies of a module, each with a thread that runs it.
class ReplicaSet {
 public:
  ReplicaSet(torch::nn::Module& module, const std::vector<torch::Device>& devices,
             int threads_a_replica);
  ~ReplicaSet();
  ReplicaSet(ReplicaSet&&) noexcept;
  ReplicaSet& operator=(ReplicaSet&&) noexcept;

  std::size_t size() const;
  torch::nn::Module& replica(std::size_t index);
  void run(const std::function<void(std::size_t)>& work);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace detail

/// Copies of a model that work side by side in one process, and one set of parameters that an
/// optimizer updates: what DataParallel is in PyTorch, for devices and for groups of threads.
///
/// Made by scale_up(). Goes together with DistributedOptimizer, which then averages the sums of
/// each process. Used by one thread.
template <class Impl>
class Replicas {
 public:
  Replicas(std::shared_ptr<Impl> model, const std::vector<torch::Device>& devices,
           int threads_a_replica)
      : model_(std::move(model)), set_(*model_, devices, threads_a_replica) {}

  std::size_t size() const { return set_.size(); }

  /// Calls work(replica, index) for every replica at once, each in its own thread, with the
  /// parameters and buffers that the model has now; then adds the gradients that backward left on
  /// the replicas to the model's, so the losses should be scaled to sum up to what is wanted.
  /// Buffers (running means) come from replica 0. Throws what the first of them threw.
  void run(const std::function<void(Impl& replica, std::size_t index)>& work) {
    set_.run([&](std::size_t index) { work(dynamic_cast<Impl&>(set_.replica(index)), index); });
  }

 private:
  std::shared_ptr<Impl> model_;
  detail::ReplicaSet set_;
};

/// A replica of `model` (a module holder; its module must be able to clone()) on each device. A
/// device may be given several times: replicas on the CPU share the model's parameters, and divide
/// the threads that libtorch has there; while they live, their maker has as many as each of them.
/// Throws InputError for no devices, or a module that cannot clone().
///
///   auto replicas = sullae::scale_up(model, {torch::kCPU, torch::kCPU});
///   replicas.run([&](NetImpl& net, std::size_t i) {
///     (torch::nll_loss(net.forward(x[i]), y[i]) / 2).backward();
///   });
///   optimizer.step();
template <class Impl>
Replicas<Impl> scale_up(const torch::nn::ModuleHolder<Impl>& model,
                        const std::vector<torch::Device>& devices, int threads_a_replica = 0) {
  return Replicas<Impl>(model.ptr(), devices, threads_a_replica);
}

}  // namespace sullae

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <set>

#include "base/thread_group.h"
#include "sullae/torch/parallel.h"
#include "torch/blas_threads.h"

namespace sullae::detail {
namespace {

std::shared_ptr<torch::nn::Module> copy_of(torch::nn::Module& module, const torch::Device& device) {
  try {
    return module.clone(device);
  } catch (const c10::Error&) {
    throw InputError("scale_up: module '" + module.name() +
                     "' cannot clone(): derive it from torch::nn::Cloneable");
  }
}

int threads_of_each(const std::vector<torch::Device>& devices, int asked) {
  const auto on_cpu = static_cast<int>(
      std::ranges::count_if(devices, [](const torch::Device& device) { return device.is_cpu(); }));
  return asked > 0 ? asked : std::max(1, at::get_num_threads() / std::max(on_cpu, 1));
}

}  // namespace

class ReplicaSet::Impl {
 public:
  Impl(torch::nn::Module& module, const std::vector<torch::Device>& devices, int threads_a_replica)
      : module_(module),
        threads_before_(at::get_num_threads()),
        threads_of_each_(threads_of_each(devices, threads_a_replica)),
        blas_threads_(threads_of_each_) {
    if (devices.empty()) throw InputError("scale_up: no devices were given");
    failures_.resize(devices.size());
    for (const auto& device : devices) replicas_.push_back(copy_of(module, device));
    for (std::size_t i = 0; i < devices.size(); ++i) threads_.start([this, i] { serve(i); });
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return ready_ == replicas_.size(); });
    // OpenMP's threads of a caller spin for a while after its work: they would take the processors
    // from the replicas.
    at::set_num_threads(threads_of_each_);
  }

  ~Impl() {
    threads_.stop();
    at::set_num_threads(threads_before_);
  }

  std::size_t size() const { return replicas_.size(); }
  torch::nn::Module& replica(std::size_t index) { return *replicas_[index]; }

  void run(const std::function<void(std::size_t)>& work) {
    hand_out();
    {
      std::unique_lock lock(mutex_);
      work_ = &work;
      left_ = replicas_.size();
      ++round_;
      start_.notify_all();
      // Without a limit: this is the program's own work, and the threads cannot be taken back from
      // it.
      done_.wait(lock, [&] { return left_ == 0; });
      work_ = nullptr;
    }
    for (const auto& failure : failures_) {
      if (failure) std::rethrow_exception(failure);
    }
    gather();
  }

 private:
  void end() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    start_.notify_all();
  }

  void serve(std::size_t index) {
    at::get_num_threads();  // initialises this thread's number, which the next line then sets
    at::set_num_threads(threads_of_each_);
    std::unique_lock lock(mutex_);
    ++ready_;
    done_.notify_all();
    for (std::uint64_t round = 0;;) {
      start_.wait(lock, [&] { return stopping_ || round_ != round; });
      if (stopping_) return;
      round = round_;
      const auto& work = *work_;
      lock.unlock();
      std::exception_ptr failure;
      try {
        work(index);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      failures_[index] = failure;
      if (--left_ == 0) done_.notify_all();
    }
  }

  // On the CPU replicas share the model's memory; elsewhere they get copies.
  void hand_out() {
    const torch::NoGradGuard guard;
    const auto parameters = module_.parameters();
    const auto buffers = module_.buffers();
    for (const auto& replica : replicas_) {
      auto own = replica->parameters();
      for (std::size_t i = 0; i < own.size(); ++i) {
        own[i].mutable_grad() = torch::Tensor();
        own[i].set_requires_grad(parameters[i].requires_grad());  // a clone's is as it was made
        if (own[i].device() == parameters[i].device()) {
          own[i].set_data(parameters[i].detach());
        } else {
          own[i].copy_(parameters[i], /*non_blocking=*/true);
        }
      }
      auto own_buffers = replica->buffers();
      for (std::size_t i = 0; i < own_buffers.size(); ++i) own_buffers[i].copy_(buffers[i]);
      replica->train(module_.is_training());
    }
  }

  void gather() {
    const torch::NoGradGuard guard;
    auto parameters = module_.parameters();
    for (const auto& replica : replicas_) {
      auto own = replica->parameters();
      std::set<const void*> added;  // one that has several names is one
      for (std::size_t i = 0; i < own.size(); ++i) {
        if (!own[i].grad().defined() || !added.insert(own[i].unsafeGetTensorImpl()).second)
          continue;
        const auto gradient = own[i].grad().to(parameters[i].device());
        torch::Tensor& sum = parameters[i].mutable_grad();
        sum = sum.defined() ? sum + gradient : gradient;
      }
    }
    auto buffers = module_.buffers();
    const auto first = replicas_.front()->buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(first[i]);
  }

  torch::nn::Module& module_;
  int threads_before_;  // of the caller
  int threads_of_each_;
  BlasThreads blas_threads_;
  std::vector<std::shared_ptr<torch::nn::Module>> replicas_;

  std::mutex mutex_;  // guards all below but the threads
  std::condition_variable start_;
  std::condition_variable done_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::uint64_t round_ = 0;
  std::size_t ready_ = 0;
  std::size_t left_ = 0;
  bool stopping_ = false;
  std::vector<std::exception_ptr> failures_;
  ThreadGroup threads_{[this] {
    end();
  }};
};

ReplicaSet::ReplicaSet(torch::nn::Module& module, const std::vector<torch::Device>& devices,
                       int threads_a_replica)
    : impl_(std::make_unique<Impl>(module, devices, threads_a_replica)) {}
ReplicaSet::~ReplicaSet() = default;
ReplicaSet::ReplicaSet(ReplicaSet&&) noexcept = default;
ReplicaSet& ReplicaSet::operator=(ReplicaSet&&) noexcept = default;
std::size_t ReplicaSet::size() const { return impl_->size(); }
torch::nn::Module& ReplicaSet::replica(std::size_t index) { return impl_->replica(index); }
void ReplicaSet::run(const std::function<void(std::size_t)>& work) { impl_->run(work); }

}  // namespace sullae::detail

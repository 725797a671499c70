// What torch.distributed knows of an operation on its way.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "callback_threads.h"
#include "sullae/sullae.h"

namespace sullae::python {

/// Any thread may call. Its future completes in one of `threads`, where its callbacks may wait for
/// other operations.
class C10dWork final : public c10d::Work {
 public:
  /// `kept` is what the operation reads and writes. Waits that name no limit have `limit`.
  C10dWork(int rank, c10d::OpType type, std::vector<at::Tensor> results, Handle handle,
           std::shared_ptr<void> kept, std::chrono::milliseconds limit,
           std::shared_ptr<CallbackThreads> threads);

  bool isCompleted() override { return handle_.done(); }
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override { return handle_.source(); }
  std::vector<at::Tensor> result() override { return results_; }
  void synchronize() override { wait(kNoTimeout); }
  bool wait(std::chrono::milliseconds timeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  Handle handle_;
  std::vector<at::Tensor> results_;
  std::shared_ptr<void> kept_;
  std::chrono::milliseconds limit_;
  std::shared_ptr<CallbackThreads> threads_;
  std::mutex mutex_;  // guards future_
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace sullae::python

// What torch.distributed knows of an operation on its way.
#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "sullae/sullae.h"

namespace sullae::python {

/// Any thread may call. Its future completes in the thread that ends the operation.
class C10dWork final : public c10d::Work {
 public:
  C10dWork(int rank, c10d::OpType type, std::vector<at::Tensor> results);

  /// The operation is under way as `handle`, which may be one that is done.
  void follow(const Handle& handle);

  bool isCompleted() override { return handle_.done(); }
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override { return handle_.source(); }
  std::vector<at::Tensor> result() override { return results_; }
  void synchronize() override { wait(kNoTimeout); }
  bool wait(std::chrono::milliseconds timeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  Handle handle_;
  std::vector<at::Tensor> results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace sullae::python

// What reductions of dense gradients share.
#pragma once

#include <torch/types.h>

#include <vector>

#include "torch/reduction/bucket_reduction.h"

namespace sullae {

/// Gradients of one type in one piece of memory, each at a multiple of 64 bytes, and flags: 1 for
/// each gradient that this rank has, and one for the rank, 0 where it has joined. The memory lives
/// as long as somebody holds a gradient.
struct GradientMemory {
  torch::Tensor flat;
  torch::Tensor flags;
  std::vector<torch::Tensor> gradients;  ///< in flat, by place

  /// In memory that the host's ranks share, flags behind gradients. Collective.
  static GradientMemory shared(const ReductionRequest& request);
  /// Gradients on the bucket's device, flags (float32) in shared memory. Collective.
  static GradientMemory on_device(const ReductionRequest& request);
};

class DenseReduction : public BucketReduction {
 public:
  DenseReduction(const ReductionRequest& request, GradientMemory memory);

  void take(std::size_t place) override;
  void start(bool stepping) override;
  void finish() override;
  void give(std::size_t place) override;
  bool holds_gradient(std::size_t place) const override;
  void clear(std::size_t place) override;
  const StepFlags* flags() const override { return &step_flags_; }

 protected:
  const GradientMemory& memory() const { return memory_; }
  const PlannedBucket& plan() const { return plan_; }
  const torch::Tensor& parameter(std::size_t place) const { return parameters_[place].tensor; }
  ReduceOp op() const { return op_; }
  DataType type() const;
  /// Apart from gradients that travel another way, so that they stay exact.
  void reduce_flags(Communicator& communicator) const;

 private:
  PlannedBucket plan_;
  std::vector<PlannedParameter> parameters_;
  ReduceOp op_;
  int ranks_;
  GradientMemory memory_;
  StepFlags step_flags_;
};

}  // namespace sullae

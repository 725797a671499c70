// One unit of the reduction of gradients: where its gradients live, and how they travel.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sullae/communicator.h"
#include "sullae/compression.h"
#include "sullae/sullae.h"
#include "sullae/torch.h"
#include "torch/bucket_plan.h"
#include "torch/device_order.h"
#include "torch/sparse_rows.h"

namespace sullae {

/// Whether a parameter had a gradient in a step.
enum class Presence : std::uint8_t { nowhere, on_some_ranks, everywhere };

/// Gradients of one type in one piece of shared memory, followed by a flag for each (1 where this
/// rank has it) and one for the rank (1 where it takes a step of its own, 0 where it has joined); or
/// the rows of one sparse gradient. Used by the training thread; the reduction runs in another, and
/// wait() comes before anything here changes.
class GradientBucket {
 public:
  /// `parameters` outlive it. Collective.
  GradientBucket(PlannedBucket plan, const std::vector<PlannedParameter>& parameters,
                 const DistributedOptimizerOptions& options, PlannedOptions label,
                 const World& world);
  /// A step that failed may have left the reduction under way: its memory must outlive that.
  ~GradientBucket();
  GradientBucket(const GradientBucket&) = delete;
  GradientBucket& operator=(const GradientBucket&) = delete;

  const std::vector<std::size_t>& members() const { return plan_.parameters; }
  bool full() const { return missing_ == 0; }
  bool started() const { return started_; }
  /// Whether start_negotiated() may be used.
  bool is_plain() const {
    return !plan_.sparse && !compression_ && op_ != ReduceOp::adasum && device_ == nullptr;
  }

  /// Takes the gradient, or its absence, of the parameter at `place` among members().
  void take(std::size_t place);
  /// Starts the reduction of a full bucket, in the same order on every rank. `stepping`: this rank
  /// has not joined.
  void start_planned(bool stepping);
  /// Starts it in any order.
  void start_negotiated(bool stepping);
  /// Waits for the result and gives every parameter its gradient. Then a new step begins.
  void finish();
  /// Takes nothing any more, after the reduction that may be under way has ended: the step goes on, and all is to be
  /// taken anew. Gradients that are `kept`, by place, become the reduction's result where they live in the bucket;
  /// of the others, which were cleared meanwhile, nothing is left.
  void reopen(const std::vector<bool>& kept);
  /// Whether the gradient at `place` lives here, so that it is the result itself.
  bool holds_gradient(std::size_t place) const { return !plan_.sparse && in_place(place); }

  /// Of the last step, for dense buckets.
  Presence presence(std::size_t place) const { return presence_[place]; }
  bool anyone_stepped() const { return anyone_stepped_; }
  bool sparse() const { return plan_.sparse; }

 private:
  const torch::Tensor& parameter(std::size_t place) const {
    return parameters_[plan_.parameters[place]].tensor;
  }
  SparseRows rows_of(const torch::Tensor& gradient) const;
  void reduce(Communicator& communicator);
  void prepare(bool stepping);
  void wait_for_reduction();
  void give_gradient(std::size_t place, const torch::Tensor& flags);
  std::string described_turn() const;
  void reduce_flags(Communicator& communicator);
  void lay_out();
  // Whether a parameter's gradient is its place in the bucket.
  bool in_place(std::size_t place) const {
    return device_ != nullptr || parameter(place).device().is_cpu();
  }

  PlannedBucket plan_;
  const std::vector<PlannedParameter>& parameters_;
  ReduceOp op_;
  World world_;
  PlannedOptions label_;  // its turn counts the reductions in this step
  std::unique_ptr<Compression> compression_;
  // Where the gradients are on a GPU that others can reach: they are reduced there, and the flags, in
  // host memory, tell of ranks that are gone.
  std::shared_ptr<DeviceCommunicator> device_;
  std::optional<DeviceTurn> turn_of_device_;
  torch::Tensor flat_;
  torch::Tensor flags_;
  std::vector<torch::Tensor> gradients_;  // views of flat_, by place
  SparseRows rows_;                       // this rank's, then everybody's
  bool rows_used_ = false;
  std::size_t missing_ = 0;
  bool started_ = false;
  Handle handle_;
  std::vector<Presence> presence_;
  bool anyone_stepped_ = true;
};

}  // namespace sullae

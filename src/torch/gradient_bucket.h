// One unit of the reduction of gradients: which of them it has, and whether it is under way.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sullae/adapter.h"
#include "sullae/sullae.h"
#include "sullae/torch.h"
#include "torch/bucket_plan.h"
#include "torch/reduction/bucket_reduction.h"

namespace sullae {

/// Used by the training thread; the reduction runs in another, and wait() comes before anything
/// here changes.
class GradientBucket {
 public:
  /// Collective.
  GradientBucket(PlannedBucket plan, const std::vector<PlannedParameter>& parameters,
                 const DistributedOptimizerOptions& options, PlannedOptions label,
                 const World& world, const ReductionMaker& maker);
  /// A step that failed may have left the reduction under way: its memory must outlive that.
  ~GradientBucket();
  GradientBucket(const GradientBucket&) = delete;
  GradientBucket& operator=(const GradientBucket&) = delete;

  /// Numbers of parameters, by place.
  const std::vector<std::size_t>& members() const { return members_; }
  bool full() const { return missing_ == 0; }
  bool started() const { return started_; }
  /// Whether start_negotiated() may be used.
  bool is_single_allreduce() const { return reduction_->single_allreduce().has_value(); }

  /// Takes the gradient, or its absence, of the parameter at `place` among members().
  void take(std::size_t place);
  /// Starts the reduction of a full bucket, in the same order on every rank. `stepping`: this rank
  /// has not joined.
  void start_planned(bool stepping);
  /// Starts it in any order.
  void start_negotiated(bool stepping);
  /// Waits for the result and gives every parameter its gradient. Then a new step begins.
  void finish();
  /// Takes nothing any more, after the reduction that may be under way has ended: the step goes on,
  /// and all is to be taken anew. Gradients that are `kept`, by place, become the reduction's
  /// result where they live in the bucket; of the others, which were cleared meanwhile, nothing is
  /// left.
  void reopen(const std::vector<bool>& kept);
  /// Whether the gradient at `place` lives here, so that it is the result itself.
  bool holds_gradient(std::size_t place) const { return reduction_->holds_gradient(place); }
  /// Of the last step; null where no flags travel with this bucket.
  const StepFlags* flags() const { return reduction_->flags(); }

 private:
  void wait_for_reduction();
  std::string described_turn() const;

  std::vector<std::size_t> members_;
  World world_;
  PlannedOptions label_;  // its turn counts the reductions in this step
  std::unique_ptr<BucketReduction> reduction_;
  std::size_t missing_ = 0;
  bool started_ = false;
  Handle handle_;
};

}  // namespace sullae

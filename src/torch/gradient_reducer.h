// Gradients of one model, reduced over ranks while backward goes on.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/interruption.h"
#include "sullae/torch.h"
#include "torch/bucket_plan.h"
#include "torch/gradient_bucket.h"
#include "torch/gradient_hooks.h"
#include "torch/gradient_mark.h"
#include "torch/kept_gradients.h"
#include "torch/reduction/path_choice.h"

namespace sullae {

/// Used by the thread that trains. Several backward passes between two synchronize(), planned or
/// not, add up, and gradients may be cleared at any moment: what is under way comes to its end, and
/// the bucket is reduced once more. Ranks that do so at different moments are told apart by their
/// buckets' labels.
class GradientReducer final : public GradientListener,
                              public std::enable_shared_from_this<GradientReducer> {
 public:
  /// How gradients of another kind than DistributedOptimizer's are reduced.
  struct Way {
    ReductionMaker make = make_reduction;
    /// Another backward may add to gradients that have been taken.
    bool adds = true;
  };
  /// Of parameters that are the same on every rank. Listens to them from here on.
  static std::shared_ptr<GradientReducer> make(std::vector<PlannedParameter> parameters,
                                               const DistributedOptimizerOptions& options,
                                               const World& world, Way way);
  static std::shared_ptr<GradientReducer> make(std::vector<PlannedParameter> parameters,
                                               const DistributedOptimizerOptions& options,
                                               const World& world) {
    return make(std::move(parameters), options, world, {});
  }
  /// Makes the buckets now, of dense gradients that are expected in the opposite order of
  /// parameters, instead of in the first step. Collective.
  void plan_ahead();

  /// Waits until every gradient is reduced, unless that was done since the last backward. Throws
  /// Error where gradients were changed since backward, on one rank as on many.
  void synchronize();
  /// After the optimizer's step: gradients may be synchronized again.
  void begin_step();
  /// Removes all gradients, and forgets what was taken of them.
  void zero_grad();
  /// Whether backward has reached a parameter since the last step.
  bool has_seen_gradients() const;

  void set_backward_passes_per_step(int passes) { options_.backward_passes_per_step = passes; }
  /// Whether this rank takes steps of its own, or only follows the others' with zeros.
  void set_stepping(bool stepping) { stepping_ = stepping; }
  /// Whether any rank took a step of its own when gradients were last reduced.
  bool anyone_stepped() const;

  void before_gradient(std::size_t index) override;
  void on_gradient(std::size_t index) override;

 private:
  using Change = GradientMark::Change;
  struct ParameterState {
    int passes = 0;        // backward passes that reached it since the last step
    bool fresh = false;    // it had no gradient before this backward
    bool taken = false;    // by its bucket, in this step
    bool reduced = false;  // its gradient is already what all ranks agree on
    GradientMark mark;     // of its gradient, when it was last seen
    std::size_t bucket = 0;
    std::size_t place = 0;  // among the bucket's members
  };

  GradientReducer(std::vector<PlannedParameter> parameters,
                  const DistributedOptimizerOptions& options, const World& world, Way way);
  const torch::Tensor& gradient(std::size_t index) const {
    return parameters_[index].tensor.grad();
  }
  void reduce();
  bool is_cleared(std::size_t index) const;
  bool is_all_new() const;
  void share_out(std::size_t index);
  void take(std::size_t index);
  void reopen(std::size_t number);
  void settle();
  [[noreturn]] void throw_changed(std::size_t index) const;
  [[noreturn]] void throw_late(std::size_t index, const char* what) const;
  void check_can_add(std::size_t index) const;
  void learn_kinds();
  void learn_kind(std::size_t index);
  void plan();
  void make_buckets();
  void plan_again();
  bool has_late_gradients() const;
  void synchronize_after_backward();
  void start_in_order();
  void choose_path();

  DistributedOptimizerOptions options_;
  Way way_;
  World world_;
  InterruptionCheck interruption_ = interruption_check();  // of the wait at the end of a backward
  std::uint64_t number_;  // tells several optimizers of one world apart
  std::vector<PlannedParameter> parameters_;
  std::vector<Accumulator> accumulators_;
  std::vector<ParameterState> states_;
  FirstStep seen_;
  FirstStep agreed_;  // among the ranks
  // In the order in which they are started; made by the first step.
  std::vector<std::unique_ptr<GradientBucket>> buckets_;
  KeptGradients kept_;  // in a world of one, which has no buckets
  std::size_t next_start_ = 0;
  bool synchronized_ = false;
  // Lives until autograd has called back at the end of the backward that is under way, or has given
  // that up.
  std::weak_ptr<void> waits_for_backward_;
  int backward_passes_ = 0;   // that have ended since the last step
  std::exception_ptr error_;  // of the wait at the end of a backward
  bool stepping_ = true;      // this rank has not joined
  PathChoice path_;
  std::optional<std::chrono::steady_clock::time_point> backward_start_;
};

}  // namespace sullae

// How the gradients of one bucket become the same on every rank: the seam, and who stands behind
// it.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "sullae/communicator.h"
#include "sullae/sullae.h"
#include "sullae/torch.h"
#include "torch/bucket_plan.h"
#include "torch/reduction/step_flags.h"

namespace sullae {

/// A reduction that is one allreduce, in place.
struct SingleAllreduce {
  void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::average;
};

/// Where a bucket's gradients live, and how they are reduced. Places are those of the bucket's
/// parameters. Used by the thread that trains, but for reduce(); nothing here is called while that
/// is under way.
class BucketReduction {
 public:
  virtual ~BucketReduction() = default;
  /// Takes the gradient, or its absence, of the parameter at `place`.
  virtual void take(std::size_t place) = 0;
  /// All are taken. `stepping`: this rank has not joined.
  virtual void start(bool stepping) = 0;
  /// Called by the world's thread after start(), in the same order of buckets on every rank.
  virtual void reduce(Communicator& communicator) = 0;
  /// The same as reduce(), for the negotiated path. None: it is more than one operation.
  virtual std::optional<SingleAllreduce> single_allreduce() const { return std::nullopt; }
  /// After reduce(): waits for the rest, if there is any.
  virtual void finish() {}
  /// Gives the parameter its share of the result, or no gradient where no rank had one.
  virtual void give(std::size_t place) = 0;
  /// Whether the gradient lives here, so that the result overwrites it.
  virtual bool holds_gradient(std::size_t place) const = 0;
  /// Fills a gradient that lives here with zeros.
  virtual void clear(std::size_t place) = 0;
  /// Of the last step; null where no flags travel, as with sparse gradients. Dense ones must carry
  /// them: join() and the choice between the paths live by them.
  virtual const StepFlags* flags() const { return nullptr; }
};

/// What a reduction is made for.
struct ReductionRequest {
  PlannedBucket plan;
  std::vector<PlannedParameter> parameters;  ///< by place
  DistributedOptimizerOptions options;
  World world;
};

/// Makes a reduction, or null for a request that it is not meant for; the same on every rank.
/// Collective.
using ReductionMaker = std::function<std::unique_ptr<BucketReduction>(const ReductionRequest&)>;

/// The first that is meant for the request: of those that were registered, then Sullae's own.
/// Collective.
std::unique_ptr<BucketReduction> make_reduction(const ReductionRequest& request);

/// Adds one, before the first optimizer is made, in the same way on every rank. Any thread.
void register_reduction(ReductionMaker maker);

}  // namespace sullae

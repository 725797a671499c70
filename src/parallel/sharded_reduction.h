// Gradients of a bucket, of which each rank gets the average of its part.
#pragma once

#include <torch/types.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "parallel/parameter_shards.h"
#include "torch/reduction/bucket_reduction.h"

namespace sullae {

/// A bucket of parameters, and this rank's part of it.
struct ShardedBucket {
  PlannedBucket plan;
  std::vector<PlannedParameter> parameters;  ///< by place
  std::vector<std::size_t> sizes;            ///< their elements
  std::vector<std::size_t> counts;           ///< elements of the bucket by rank
  torch::Tensor weights;                     ///< of all parameters, which live in it
  torch::Tensor shard;                       ///< this rank's part of them
  torch::Tensor gradient;                    ///< of the shard
  std::vector<ShardPiece> pieces;            ///< of the shard
  std::vector<torch::Tensor>
      updated;  ///< by piece: what the optimizer updates, in float32 or wider

  std::size_t element_bytes() const { return c10::elementSize(plan.type); }
};

/// Memory for buckets' gradients on their way, which buckets take in turn. Any thread.
class GradientBuffers {
 public:
  /// `count` of `bytes` each, in memory that the host's ranks share. Collective.
  GradientBuffers(std::size_t count, std::size_t bytes, const World& world);

  /// Waits for a bucket that is under way where there is none left, so that gradients do not pile up; where all that have one wait
  /// for more gradients, makes another.
  std::shared_ptr<std::byte> take();
  /// What has it is under way from here on, and gives it back by itself.
  void starts();
  void give_back(std::shared_ptr<std::byte> buffer);

 private:
  World world_;
  std::size_t bytes_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<std::shared_ptr<std::byte>> free_;
  std::vector<std::byte*> shared_;
  int under_way_ = 0;
};

/// `buffers`: null for a buffer of its own.
std::unique_ptr<BucketReduction> make_sharded_reduction(const ReductionRequest& request,
                                                        ShardedBucket& bucket,
                                                        GradientBuffers* buffers);

}  // namespace sullae

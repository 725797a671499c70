// Gradients of a bucket, of which each rank gets the average of its part.
#pragma once

#include <torch/types.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "parallel/parameter_shards.h"
#include "parallel/shard_exchange.h"
#include "torch/reduction/bucket_reduction.h"

namespace sullae {

/// A bucket of parameters, and this rank's part of it.
struct ShardedBucket {
  PlannedBucket plan;
  std::vector<PlannedParameter> parameters;  ///< by place
  std::vector<std::size_t> sizes;            ///< their elements
  std::vector<std::size_t> counts;           ///< elements of the bucket by rank
  WholeMemory memory;                        ///< in which all parameters live
  torch::Tensor weights;                     ///< what is there
  torch::Tensor shard;                       ///< this rank's part of them
  torch::Tensor gradient;                    ///< of the shard, where it is reduced
  std::vector<ShardPiece> pieces;            ///< of the shard
  std::vector<torch::Tensor>
      updated;  ///< by piece: what the optimizer updates, in float32 or wider

  std::size_t element_bytes() const { return c10::elementSize(plan.type); }
};

/// Memory for buckets' gradients on their way, which buckets take in turn. Any thread.
class GradientBuffers {
 public:
  /// `count` of `bytes` each, where `exchange` reduces; on a GPU they are made when they are taken,
  /// and as large as that says. Which outlives this. Collective.
  GradientBuffers(std::size_t count, std::size_t bytes, const World& world,
                  const ShardExchange& exchange);
  /// What is on its way on a GPU is there before the buffers go.
  ~GradientBuffers();
  GradientBuffers(const GradientBuffers&) = delete;
  GradientBuffers& operator=(const GradientBuffers&) = delete;

  /// Waits for a bucket that is under way where there is none left, so that gradients do not pile
  /// up; where all that have one wait for more gradients, makes another. On a GPU the stream waits,
  /// and not the host.
  std::shared_ptr<std::byte> take(std::size_t bytes);
  /// What has it is under way from here on, and gives it back by itself.
  void starts();
  void give_back(std::shared_ptr<std::byte> buffer);
  /// Instead of both, on a GPU: it is free after `last`, if any.
  void let_go(std::shared_ptr<std::byte> buffer, std::shared_ptr<const DeviceTurn> last);

 private:
  struct LetGo {
    std::shared_ptr<std::byte> buffer;
    std::shared_ptr<const DeviceTurn> last;
  };

  World world_;
  const ShardExchange& exchange_;
  std::size_t count_;
  std::size_t bytes_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<std::shared_ptr<std::byte>> free_;
  std::vector<std::byte*> shared_;
  std::deque<LetGo> let_go_;
  int under_way_ = 0;
};

/// `buffers`: null for a buffer of its own.
std::unique_ptr<BucketReduction> make_sharded_reduction(const ReductionRequest& request,
                                                        ShardedBucket& bucket,
                                                        const ShardExchange& exchange,
                                                        GradientBuffers* buffers);

}  // namespace sullae

// Parts that ranks have of one memory, on their way to all of them, and sums of all ranks' memories
// on their way to the parts: in host memory by the engine; on a GPU by NCCL, in the GPU's streams;
// and where NCCL cannot be, as between ranks that share a GPU, through host memory.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "sullae/communicator.h"
#include "sullae/device.h"
#include "sullae/sullae.h"
#include "torch/device_order.h"

namespace sullae {

/// Elements of one type of which each rank has a part.
struct ShardRange {
  torch::Tensor shard;  ///< this rank's, contiguous
  const std::vector<std::size_t>* counts =
      nullptr;             ///< elements by rank; outlives what is under way
  std::size_t offset = 0;  ///< of all parts in the memory, in bytes
};

/// Memory with room for all ranks' parts.
struct WholeMemory {
  std::shared_ptr<std::byte> here = nullptr;  ///< on the device
  std::shared_ptr<std::byte> host = nullptr;  ///< what the engine works on; null where it does not
  std::size_t bytes = 0;
  torch::Device device = torch::kCPU;
};

/// Parts that arrive. Where it goes nothing is written any more; on a GPU: by the time at which
/// what comes next in its stream runs.
class PendingGather {
 public:
  PendingGather() = default;
  PendingGather(PendingGather&& other) noexcept = default;
  PendingGather& operator=(PendingGather&& other) = delete;
  ~PendingGather();

  /// Until they are there, on a GPU: for what comes next in its stream. Throws what the gather
  /// threw.
  void wait();

 private:
  friend class ShardExchange;

  Handle handle_;                           // of the engine
  std::unique_ptr<const DeviceTurn> turn_;  // of NCCL
  std::unique_ptr<const WholeMemory>
      lands_;  // what has come to host memory, and goes on to the GPU
};

/// Any number of gathers and reductions may be under way; all ranks start the same ones in the same
/// order. Used by one thread at a time.
class ShardExchange {
 public:
  /// Of memory on `device`, of which all ranks have the same kind. Collective.
  ShardExchange(const World& world, torch::Device device);
  ShardExchange(const ShardExchange&) = delete;
  ShardExchange& operator=(const ShardExchange&) = delete;

  /// Collective: memory of the host that its ranks reach.
  WholeMemory allocate(std::size_t bytes) const;
  /// The same, and slower, by one rank alone.
  WholeMemory allocate_alone(std::size_t bytes) const;
  /// Brings together what ranks have. `name` is for the timeline, and for the MismatchError of
  /// ranks that gather different things, which wait() throws, or, on a GPU, the next gather() or
  /// check().
  PendingGather gather(const WholeMemory& whole, std::vector<ShardRange> ranges,
                       const std::string& name);
  /// Throws where ranks have gathered different things on their GPUs, which ends the world.
  void check();

  /// Whether all is done in the GPU's streams: sums are made there, by start_reduce(), else in host
  /// memory, by reduce().
  bool is_in_stream() const { return in_stream_; }
  torch::Device reduces_on() const { return in_stream_ ? device_ : torch::Device(torch::kCPU); }
  /// There. Collective.
  std::shared_ptr<std::byte> allocate_sums(std::size_t bytes) const;
  std::shared_ptr<std::byte> allocate_sums_alone(std::size_t bytes) const;
  /// Each rank's part of `sums`, added up, or averaged, becomes its shards; in an operation of the
  /// engine.
  static void reduce(Communicator& communicator, const std::byte* sums,
                     const std::vector<ShardRange>& ranges, ReduceOp op);
  /// The same in the GPU's streams; null where there is nobody else.
  std::shared_ptr<const DeviceTurn> start_reduce(const std::byte* sums,
                                                 const std::vector<ShardRange>& ranges,
                                                 ReduceOp op) const;

 private:
  PendingGather gather_in_stream(const WholeMemory& whole, const std::vector<ShardRange>& ranges,
                                 const std::string& name);
  void check_first();

  World world_;
  torch::Device device_;
  std::shared_ptr<DeviceCommunicator>
      nccl_;  // null in host memory, and where ranks share a GPU, or there is one
  bool in_stream_;
  std::deque<Handle> named_;  // what was gathered in the stream, as the engine compares it
};

}  // namespace sullae

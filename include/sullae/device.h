// The seam for collectives on the memory of GPUs.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "sullae/types.h"

namespace sullae {

/// Collectives of a group of ranks, each with a GPU of its own, on device memory. A call puts work
/// on stream() and returns; the caller orders it against its own streams with events, so the host
/// never waits. Every rank makes the same calls in the same order; one thread at a time may call.
/// Counts are in elements; `in` and `out` may be the same buffer where both have the same size, but
/// alltoall's.
///
/// A rank that is gone is noticed by the library below or by the world, or after SULLAE_TIMEOUT:
/// what is on the stream is then ended before its time, with whatever is there by then, and the
/// next call throws Error.
class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "nccl", "nccl+ucx", …
  virtual std::string backend() const = 0;
  /// A cudaStream_t of this communicator's device.
  virtual void* stream() const = 0;

  /// Any operation but adasum, for which InputError is thrown.
  virtual void allreduce(const void* in, void* out, std::size_t count, DataType type,
                         ReduceOp op) = 0;
  /// As in Communicator.
  virtual void reducescatter(const void* in, void* out, std::span<const std::size_t> counts,
                             DataType type, ReduceOp op) = 0;
  virtual void allgather(const void* in, void* out, std::span<const std::size_t> counts,
                         DataType type) = 0;
  virtual void broadcast(void* data, std::size_t count, DataType type, int root) = 0;
  virtual void alltoall(const void* in, std::span<const std::size_t> send_counts, void* out,
                        std::span<const std::size_t> receive_counts, DataType type) = 0;
  /// Once what is on the stream has been waited for: throws Error where it was ended before its
  /// time. Any thread.
  virtual void check() const {}
  /// The group has failed: when it ends it waits for no other rank.
  virtual void abandon() {}
};

}  // namespace sullae

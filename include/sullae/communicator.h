// The seam between the engine and whatever moves bytes: the collectives of one group of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sullae/types.h"

namespace sullae {

namespace messages {
class Group;
}

/// Collectives over a fixed group of ranks, blocking. Every rank makes the same calls in the same
/// order; one thread at a time may call. Counts are in elements. `in` and `out` may be the same
/// buffer where both have the same size, and must not overlap otherwise. All throw PeerError,
/// TimeoutError or MismatchError; after the first two the communicator is of no further use, and
/// after the third it may be where several hosts have several ranks each (every call says so).
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// What moves the bytes: "shm", "ucx", "shm+ucx", …
  virtual std::string backend() const = 0;

  /// out[i] = reduction of every rank's in[i]; the same bits on every rank.
  virtual void allreduce(const void* in, void* out, std::size_t count, DataType type,
                         ReduceOp op) = 0;
  /// As allreduce, but only `root` receives; `out` is ignored elsewhere.
  virtual void reduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op,
                      int root) = 0;
  /// Reduces `in` (the sum of `counts` elements) and gives rank r the r-th part of counts[r]
  /// elements in `out`.
  virtual void reducescatter(const void* in, void* out, std::span<const std::size_t> counts,
                             DataType type, ReduceOp op) = 0;
  /// `out` becomes the concatenation of every rank's `in`, rank r giving counts[r] elements. Rank
  /// r's `in` may be its own part of `out`.
  virtual void allgather(const void* in, void* out, std::span<const std::size_t> counts,
                         DataType type) = 0;
  virtual void broadcast(void* data, std::size_t count, DataType type, int root) = 0;
  /// Sends the r-th part of `in` (send_counts[r] elements) to rank r; `out` becomes the
  /// concatenation of what arrives, receive_counts[r] from rank r.
  virtual void alltoall(const void* in, std::span<const std::size_t> send_counts, void* out,
                        std::span<const std::size_t> receive_counts, DataType type) = 0;
  virtual void barrier() = 0;
  /// allreduce with ReduceOp::adasum of several tensors that lie one after another, each combined
  /// by itself. Made of the collectives above.
  virtual void adasum(const void* in, void* out, std::span<const std::size_t> tensors,
                      DataType type);

  /// Messages between two ranks, the same as those of the World that this is a channel of: see
  /// World::send and World::receive. Throw Error where the communicator was made without them.
  void send(const void* data, std::size_t count, DataType type, int to, int tag = 0);
  int receive(void* data, std::size_t count, DataType type, int from, int tag = 0);
  void set_messages(std::shared_ptr<messages::Group> messages) { messages_ = std::move(messages); }

  /// The algorithms that set_allreduce_algorithm() understands here; what is set comes first.
  virtual std::vector<std::string> allreduce_algorithms() const { return {"auto"}; }
  /// For allreduces from here on. Every rank must choose the same.
  virtual void set_allreduce_algorithm(const std::string& name) { static_cast<void>(name); }

  /// Ends the collective that other ranks wait in, or the next that they call, for `reason`: with a
  /// PeerError of `rank`, one of the world's that cannot go on, or where none is named with a
  /// MismatchError. For one that is made of several; it is of no further use after this.
  virtual void fail(std::string_view reason, std::optional<int> rank) {
    static_cast<void>(reason);
    static_cast<void>(rank);
  }

  /// What the operations from here on are part of; empty: nothing. Ranks whose labels differ
  /// (`plan` tells equal names apart, `turn` repetitions of the same) get a MismatchError that
  /// shows them. A communicator may ignore it.
  virtual void set_label(std::string_view name, std::uint64_t plan, unsigned turn) {
    static_cast<void>(name);
    static_cast<void>(plan);
    static_cast<void>(turn);
  }

  /// Memory in which buffers of allreduce are fastest (a segment that the host's ranks share),
  /// zeroed, 64-byte aligned. Collective, the same `bytes` on every rank. It lives as long as
  /// somebody holds it, even after the communicator.
  virtual std::shared_ptr<std::byte> allocate_shared(std::size_t bytes) = 0;

 private:
  messages::Group& messages();

  std::shared_ptr<messages::Group> messages_;
};

}  // namespace sullae

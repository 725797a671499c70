// The collectives of the ranks of one host, through shared memory.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "collective/counts.h"
#include "collective/shm/shared_buffers.h"
#include "sullae/communicator.h"
#include "transport/shm/shm_group.h"

namespace sullae::shm {

/// For two ranks or more.
class ShmCommunicator final : public Communicator {
 public:
  /// `buffers` may be shared with other communicators of the same ranks, whose `channel` is
  /// another: what one allocated is known to all.
  ShmCommunicator(Rendezvous& rendezvous, GroupOptions options, std::uint8_t channel,
                  std::shared_ptr<SharedBuffers> buffers)
      : group_(rendezvous, std::move(options)), channel_(channel), buffers_(std::move(buffers)) {}

  int rank() const override { return group_.index(); }
  int size() const override { return group_.size(); }
  std::string backend() const override { return "shm"; }

  void allreduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op) override;
  void reduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op,
              int root) override;
  void reducescatter(const void* in, void* out, std::span<const std::size_t> counts, DataType type,
                     ReduceOp op) override;
  void allgather(const void* in, void* out, std::span<const std::size_t> counts,
                 DataType type) override;
  void broadcast(void* data, std::size_t count, DataType type, int root) override;
  void alltoall(const void* in, std::span<const std::size_t> send_counts, void* out,
                std::span<const std::size_t> receive_counts, DataType type) override;
  void barrier() override { group_.exchange({}); }
  void fail(std::string_view reason, std::optional<int> rank) override {
    group_.fail(reason, rank);
  }
  void set_label(std::string_view name, std::uint64_t plan, unsigned turn) override {
    group_.set_label(name, plan, turn);
  }

  std::shared_ptr<std::byte> allocate_shared(std::size_t bytes) override {
    return buffers_->allocate(group_, channel_, bytes);
  }

 private:
  static constexpr int kEverybody = -1;

  // A reduction whose result goes to `root`, or to everybody.
  struct Reduction {
    const std::byte* in;
    std::byte* out;  // null where this rank does not receive
    std::size_t count;
    DataType type;
    ReduceOp op;
    int root;
  };

  // The ways to reduce, from the smallest to the largest; see shm_reduce.cc.
  void reduce_any(const Signature& signature, const Reduction& reduction);
  void reduce_in_cells(const Signature& signature, const Reduction& reduction);
  void reduce_in_slots(const Signature& signature, const Reduction& reduction);
  bool reduce_in_place(const Signature& signature, const Reduction& reduction);
  void reduce_large(const Reduction& reduction);
  void reduce_by_reading(const Reduction& reduction);
  void reduce_pipelined(const Reduction& reduction);

  // Which of two ways is faster for sizes up to a power of two: each is tried, then all ranks take
  // the same.
  struct Trial {
    int calls = 0;
    std::array<double, 2> least{};  // seconds a byte
    bool reads = true;
  };

  // Where `memory` lies in every rank's part of the shared buffers; empty, with the operation
  // announced and agreed, where some rank's is ordinary memory.
  std::vector<std::byte*> places_of_all(const Signature& signature, const void* memory,
                                        std::size_t bytes);
  // Rounds in which everybody writes its slot, waits for everybody, and reads the others' slots.
  // `rounds` is asked after the first round's announcements. `signature` is null where it was
  // agreed.
  void lockstep(const Signature* signature, const std::function<std::size_t()>& rounds,
                const std::function<void(std::size_t round, std::byte* slot)>& write,
                const std::function<void(std::size_t round, std::uint64_t announcement)>& read);

  Group group_;
  std::uint8_t channel_;
  std::shared_ptr<SharedBuffers> buffers_;
  std::array<Trial, 5> trials_;
  std::vector<std::byte>
      copies_;  // of peers' memory; kept, since fresh pages cost more than the copy
};

}  // namespace sullae::shm

// Collectives of several hosts with several ranks each: shared memory within a host, messages
// between hosts.
#pragma once

#include <memory>

#include "collective/counts.h"
#include "sullae/communicator.h"
#include "transport/topology.h"

namespace sullae {

struct HierarchicalOptions {
  /// adasum averages within a host and combines hosts, instead of combining all ranks.
  bool hierarchical_adasum = false;
};

/// An allreduce is a reduce-scatter within each host, an allreduce of each slice between the ranks
/// of all hosts that own it, and an allgather within each host: the slow link carries each byte
/// once a host. Hosts may have different numbers of ranks: there are as many slices as the smallest
/// host has ranks. After a MismatchError, which every rank gets, it is of no further use: hosts may
/// have stopped at different points.
class HierarchicalCommunicator final : public Communicator {
 public:
  /// `local` joins the ranks of this host; `cross` joins those of all hosts with this rank's local
  /// rank, and is null where some host has no such rank; `flat` joins all ranks.
  HierarchicalCommunicator(Topology topology, std::unique_ptr<Communicator> local,
                           std::unique_ptr<Communicator> cross, std::unique_ptr<Communicator> flat,
                           HierarchicalOptions options = {});

  int rank() const override { return topology_.rank; }
  int size() const override { return topology_.size; }
  std::string backend() const override { return local_->backend() + '+' + flat_->backend(); }

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
  void barrier() override;
  void adasum(const void* in, void* out, std::span<const std::size_t> tensors,
              DataType type) override;
  std::vector<std::string> allreduce_algorithms() const override;
  void set_allreduce_algorithm(const std::string& name) override;
  void fail(std::string_view reason, std::optional<int> rank) override;
  void set_label(std::string_view name, std::uint64_t plan, unsigned turn) override;

  std::shared_ptr<std::byte> allocate_shared(std::size_t bytes) override {
    return local_->allocate_shared(bytes);
  }

 private:
  // The part of each rank of the host, and this rank's: the first `slices` ranks have one.
  struct Slices {
    std::vector<std::size_t> counts;
    Range mine;
  };
  Slices slice(std::size_t count, int slices) const;
  template <class Collective>
  void guarded(const Collective& collective);
  Communicator& among_all();

  HierarchicalOptions options_;
  Topology topology_;
  std::unique_ptr<Communicator> local_;
  std::unique_ptr<Communicator> cross_;
  std::unique_ptr<Communicator> flat_;
  int slices_;
  int largest_host_;     // in ranks
  std::string failure_;  // of an earlier collective: the parts are not in step any more
};

}  // namespace sullae

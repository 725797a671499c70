// The collectives of a group of ranks through messages, wherever the ranks are.
#pragma once

#include <memory>

#include "collective/aligned_memory.h"
#include "collective/p2p/p2p.h"
#include "sullae/communicator.h"
#include "transport/transport.h"

namespace sullae {

/// For two ranks or more.
class P2pCommunicator final : public Communicator {
 public:
  /// `algorithm` is the allreduce's: "auto", or a name of allreduce_algorithms().
  explicit P2pCommunicator(std::unique_ptr<Transport> transport, std::string algorithm = "auto")
      : transport_(std::move(transport)), algorithm_(std::move(algorithm)) {}

  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  std::string backend() const override { return transport_->name(); }

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
  std::vector<std::string> allreduce_algorithms() const override;
  void set_allreduce_algorithm(const std::string& name) override { algorithm_ = name; }
  void fail(std::string_view reason, std::optional<int> rank) override;
  void set_label(std::string_view name, std::uint64_t plan, unsigned turn) override {
    labels_.set(name, plan, turn);
  }

  /// Ordinary memory: messages gain nothing from any other.
  std::shared_ptr<std::byte> allocate_shared(std::size_t bytes) override {
    return allocate_aligned(bytes);
  }

 private:
  // Runs `collective` with the next exchange. What it finds wrong is told to all ranks: those that
  // do not talk to the one that is at fault wait for some that do.
  template <class Collective>
  void run(const Collective& collective);

  p2p::Scratch scratch_;  // outlives the transport, which may still write to it
  std::unique_ptr<Transport> transport_;
  std::string algorithm_;
  std::uint64_t sequence_ = 0;
  Labels labels_;
};

}  // namespace sullae

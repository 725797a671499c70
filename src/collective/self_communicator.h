// The collectives of a world of one.
#pragma once

#include "base/copy.h"
#include "collective/aligned_memory.h"
#include "collective/reduce/reduce.h"
#include "sullae/communicator.h"

namespace sullae {

class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string backend() const override { return "self"; }

  void allreduce(const void* in, void* out, std::size_t count, DataType type,
                 ReduceOp op) override {
    reduction::check_supported(type, op);
    copy(in, out, count, type);
  }
  void reduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op,
              int) override {
    reduction::check_elementwise(type, op);
    allreduce(in, out, count, type, op);
  }
  void reducescatter(const void* in, void* out, std::span<const std::size_t> counts, DataType type,
                     ReduceOp op) override {
    reduction::check_elementwise(type, op);
    allreduce(in, out, counts[0], type, op);
  }
  void allgather(const void* in, void* out, std::span<const std::size_t> counts,
                 DataType type) override {
    copy(in, out, counts[0], type);
  }
  void broadcast(void*, std::size_t, DataType, int) override {}
  void alltoall(const void* in, std::span<const std::size_t> send_counts, void* out,
                std::span<const std::size_t>, DataType type) override {
    copy(in, out, send_counts[0], type);
  }
  void barrier() override {}

  std::shared_ptr<std::byte> allocate_shared(std::size_t bytes) override {
    return allocate_aligned(bytes);
  }

 private:
  static void copy(const void* in, void* out, std::size_t count, DataType type) {
    if (in != out) copy_bytes(out, in, count * element_size(type));
  }
};

}  // namespace sullae

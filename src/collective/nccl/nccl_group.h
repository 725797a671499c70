// One NCCL communicator and the stream that it works on.
#pragma once

#include <nccl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "base/deadline.h"
#include "collective/nccl/cuda.h"
#include "collective/nccl/nccl_communicator.h"
#include "collective/nccl/watchdog.h"

namespace sullae::nccl {

class Group final : public DeviceCommunicator {
 public:
  Group(Rendezvous& rendezvous, const Options& options, std::shared_ptr<Stream> stream);
  ~Group() override;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const override { return options_.group.index; }
  int size() const override { return static_cast<int>(options_.group.ranks.size()); }
  std::string backend() const override { return "nccl"; }
  void* stream() const override { return stream_->handle(); }

  void allreduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op) override;
  void reducescatter(const void* in, void* out, std::span<const std::size_t> counts, DataType type,
                     ReduceOp op) override;
  void allgather(const void* in, void* out, std::span<const std::size_t> counts,
                 DataType type) override;
  void broadcast(void* data, std::size_t count, DataType type, int root) override;
  void alltoall(const void* in, std::span<const std::size_t> send_counts, void* out,
                std::span<const std::size_t> receive_counts, DataType type) override;
  void check() const override { watchdog_->check(); }
  void abandon() override { abandoned_ = true; }

 private:
  /// Calls NCCL, and waits until it has put its work on the stream.
  void enqueue(const char* what, const std::function<ncclResult_t()>& call);
  void settle(const char* what, ncclResult_t result, const Deadline& deadline);
  void destroy() noexcept;

  Options options_;
  std::shared_ptr<Stream> stream_;
  ncclComm_t handle_ = nullptr;
  std::optional<Watchdog> watchdog_;
  std::atomic<bool> abandoned_ = false;
};

}  // namespace sullae::nccl

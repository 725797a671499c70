// torch.distributed over a World: `init_process_group("sullae")`.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "base/deadline.h"
#include "base/own_process.h"
#include "c10d_tensors.h"
#include "callback_threads.h"
#include "sullae/communicator.h"
#include "sullae/sullae.h"

namespace sullae::python {

/// Of one process group. Collectives run in their order on the World's planned path, in the
/// background; those that the caller waits for anyway run in its own thread, in that same order:
/// one rank may wait where another does not. Tensors are in host memory; those that are not
/// contiguous are copied. Types that are only moved, and not reduced, may be any.
class C10dBackend final : public c10d::Backend {
 public:
  /// `kept` lives as long as this: the rendezvous store, on the rank that serves it.
  C10dBackend(World world, std::shared_ptr<void> kept);
  ~C10dBackend() override;

  const std::string getBackendName() const override { return "sullae"; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  // Of torch from 2.6 on.
  void shutdown();
  /// What is under way, here and on the other ranks, fails.
  void abort();
  /// Before the interpreter ends, which ends threads that ask for its lock where they stand: of all
  /// groups of this process, what is under way comes to its end, or fails after `limit`, and the
  /// groups are left; then as CallbackThreads::end_all().
  static void end_all(std::chrono::milliseconds limit);

  using Work = c10::intrusive_ptr<c10d::Work>;

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work allreduce_coalesced(Tensors& tensors,
                           const c10d::AllreduceCoalescedOptions& options) override;
  Work reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Work allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::AllgatherOptions& options) override;
  Work _allgather_base(at::Tensor& output, at::Tensor& input,
                       const c10d::AllgatherOptions& options) override;
  Work allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                           const c10d::AllgatherOptions& options) override;
  Work allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                       const c10d::AllgatherOptions& options) override;
  Work gather(std::vector<Tensors>& outputs, Tensors& inputs,
              const c10d::GatherOptions& options) override;
  Work scatter(Tensors& outputs, std::vector<Tensors>& inputs,
               const c10d::ScatterOptions& options) override;
  Work reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const c10d::ReduceScatterOptions& options) override;
  Work _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                            const c10d::ReduceScatterOptions& options) override;
  Work reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                       const c10d::ReduceScatterOptions& options) override;
  Work alltoall_base(at::Tensor& output, at::Tensor& input,
                     std::vector<std::int64_t>& output_splits,
                     std::vector<std::int64_t>& input_splits,
                     const c10d::AllToAllOptions& options) override;
  Work alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  Work send(Tensors& tensors, int to, int tag) override;
  Work recv(Tensors& tensors, int from, int tag) override;
  Work recvAnysource(Tensors& tensors, int tag) override;
  Work barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

 private:
  using Collectives = std::function<void(Communicator&)>;
  /// Throws InputError, naming `what`, where the group has no such rank.
  int root_of(std::int64_t root, const char* what) const;
  // `results` are what the Work's future has; `collectives` keeps what it reads and writes.
  Work start(c10d::OpType type, Tensors results, const Way& way, Collectives collectives);
  Work work_of(c10d::OpType type, Tensors results, Handle handle, std::shared_ptr<void> kept,
               std::chrono::milliseconds limit = kNoTimeout) const;
  std::shared_ptr<void> keep(const at::Tensor& tensor, const Handle& handle) const;
  void end_by(const Deadline& deadline);
  Work receive(const at::Tensor& tensor, int from, int tag, c10d::OpType type);

  World world_;
  std::shared_ptr<void> kept_;
  std::shared_ptr<CallbackThreads> threads_ = std::make_shared<CallbackThreads>();
  std::atomic<std::uint64_t> sequence_ = 0;
  OwnProcess process_;
  std::mutex last_mutex_;
  Handle last_;  // of those in the background, which end in their order; guarded by last_mutex_
};

}  // namespace sullae::python

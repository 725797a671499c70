// Collectives on tensors in the background: named, in any order on any rank, from any thread, as
// World's asynchronous calls. What the shapes of results are, the ranks find out together.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sullae/sullae.h"

namespace sullae {

/// A collective on tensors on its way. It keeps its tensors alive. Copies refer to the same
/// operation. Any thread may call.
class TensorHandle {
 public:
  TensorHandle() = default;
  /// True when wait() would not wait for another rank.
  bool done() const;
  /// Waits until the operation has completed on this rank, and returns what came out of it;
  /// rethrows what it threw.
  const std::vector<torch::Tensor>& wait() const;
  /// Only waits, for at most `limit`; false when it has not completed by then.
  bool wait_for(std::chrono::milliseconds limit) const;

  /// What the operation works on, from its submission to its end.
  struct State;

 private:
  friend struct TensorHandleMaker;
  explicit TensorHandle(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// Tensors may be on any device and have any strides; those that are not contiguous in host memory
// are copied there when they are submitted and back in wait(). Inputs and outputs must not change
// before. All throw InputError for what cannot be done, and the handle what the ranks disagree on.

/// outputs[i] = the reduction of every rank's inputs[i], which may be the same tensors: all under
/// one name, completed together, and of one element type. The result of wait() is `outputs`.
TensorHandle allreduce_async(const std::vector<torch::Tensor>& inputs,
                             const std::vector<torch::Tensor>& outputs, ReduceOp op = ReduceOp::sum,
                             const AsyncOptions& options = {},
                             const World& world = sullae::world());
/// `output`, which may be `input`, becomes root's `input`.
TensorHandle broadcast_async(const torch::Tensor& input, const torch::Tensor& output, int root,
                             const AsyncOptions& options = {},
                             const World& world = sullae::world());
/// For each tensor every rank's, concatenated along dimension 0, which may differ between ranks;
/// the others may not. A number counts as one row.
TensorHandle allgather_async(const std::vector<torch::Tensor>& tensors,
                             const AsyncOptions& options = {},
                             const World& world = sullae::world());
/// Reduces each and returns this rank's rows of it. Where they do not divide evenly, the first
/// ranks have one more.
TensorHandle reducescatter_async(const std::vector<torch::Tensor>& tensors,
                                 ReduceOp op = ReduceOp::sum, const AsyncOptions& options = {},
                                 const World& world = sullae::world());
/// Sends splits[r] rows of `tensor` to rank r, in the order of ranks; without `splits` equally many
/// to each. wait() gives what arrived, in the order of ranks, and how many rows from each rank
/// (int64).
TensorHandle alltoall_async(const torch::Tensor& tensor,
                            const std::optional<std::vector<std::int64_t>>& splits = {},
                            const AsyncOptions& options = {}, const World& world = sullae::world());

}  // namespace sullae

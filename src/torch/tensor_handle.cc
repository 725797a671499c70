#include "torch/tensor_handle.h"

#include <fmt/format.h>

#include "torch/tensor_checks.h"

namespace sullae {

bool TensorHandle::done() const { return !state_ || state_->handle.done(); }

const std::vector<torch::Tensor>& TensorHandle::wait() const {
  static const std::vector<torch::Tensor> kNothing;
  if (!state_) return kNothing;
  state_->handle.wait();
  const std::lock_guard lock(state_->mutex);
  if (std::exchange(state_->finished, true)) return state_->results;
  const torch::NoGradGuard guard;
  for (std::size_t i = 0; i < state_->targets.size(); ++i) {
    torch::Tensor& target = state_->targets[i];
    if (!target.defined()) continue;
    target.copy_(state_->results[i]);
    state_->results[i] = target;
  }
  state_->inputs.clear();
  return state_->results;
}

bool TensorHandle::wait_for(std::chrono::milliseconds limit) const {
  return !state_ || state_->handle.wait_for(limit);
}

torch::Tensor reachable(const torch::Tensor& tensor, const char* what) {
  check_defined(tensor, what);
  if (tensor.layout() != torch::kStrided)
    throw InputError(fmt::format("{}: the tensor is sparse: expected a dense one", what));
  return tensor.detach().to(torch::kCPU).contiguous();
}

}  // namespace sullae

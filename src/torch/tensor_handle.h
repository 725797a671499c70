// What the asynchronous collectives on tensors share.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "sullae/torch/async.h"

namespace sullae {

/// Set before the operation starts, or by the operation before it completes.
struct TensorHandle::State {
  Handle handle;
  /// What is read and written meanwhile, in host memory.
  std::vector<torch::Tensor> inputs;
  std::vector<torch::Tensor> results;
  /// Where results are to be copied when all is done: as many as results, undefined ones where
  /// nothing is.
  std::vector<torch::Tensor> targets;
  std::mutex mutex;  // guards what wait() does
  bool finished = false;
};

struct TensorHandleMaker {
  static TensorHandle make(std::shared_ptr<TensorHandle::State> state) {
    return TensorHandle(std::move(state));
  }
};

/// `tensor` where it can be worked on in the background: itself, or a copy in host memory. Of what
/// requires gradients, the values. `what` names the call.
torch::Tensor reachable(const torch::Tensor& tensor, const char* what);

}  // namespace sullae

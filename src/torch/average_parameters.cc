#include <torch/torch.h>

#include "sullae/torch.h"

namespace sullae {

void average_parameters(torch::nn::Module& module, const World& world) {
  if (world.size() == 1) return;
  const torch::NoGradGuard guard;
  const auto average = [&](torch::Tensor tensor) {
    if (tensor.is_floating_point()) {
      allreduce(tensor, ReduceOp::average, world);
    } else {
      broadcast(tensor, 0, world);
    }
  };
  for (auto& parameter : module.parameters()) average(parameter.detach());
  for (auto& buffer : module.buffers()) average(buffer);
}

}  // namespace sullae

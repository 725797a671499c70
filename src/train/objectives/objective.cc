#include "sullae/train/objective.h"

#include <torch/torch.h>

namespace sullae::train {

Tally Objective::measure(torch::nn::Module& model, const Batch& batch) const {
  const auto count = static_cast<double>(batch.size());
  return {.loss = {loss(model, batch).item<double>() * count, count}, .metrics = {}};
}

}  // namespace sullae::train

#include <torch/torch.h>

#include "sullae/train/objective.h"

namespace sullae::train {

namespace F = torch::nn::functional;

torch::Tensor Classification::loss(torch::nn::Module& model, const Batch& batch) const {
  return F::cross_entropy(forward_(model, batch).to(torch::kFloat32), batch.labels,
                          F::CrossEntropyFuncOptions().label_smoothing(label_smoothing_));
}

std::vector<Metric> Classification::metrics() const {
  return {{.name = "accuracy", .in_percent = true}};
}

Tally Classification::measure(torch::nn::Module& model, const Batch& batch) const {
  const auto scores = forward_(model, batch).to(torch::kFloat32);
  const auto count = static_cast<double>(batch.size());
  return {.loss = {F::cross_entropy(scores, batch.labels).item<double>() * count, count},
          .metrics = {{scores.argmax(1).eq(batch.labels).sum().item<double>(), count}}};
}

}  // namespace sullae::train

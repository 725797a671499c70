#include "train/checked_objective.h"

#include <fmt/format.h>

#include "sullae/error.h"

namespace sullae::train {

torch::Tensor checked_loss(const Objective& objective, torch::nn::Module& model,
                           const Batch& batch) {
  auto loss = objective.loss(model, batch);
  if (loss.numel() != 1)
    throw InputError(fmt::format("Objective::loss gave {} numbers, expected one", loss.numel()));
  return loss;
}

Tally checked_tally(const Objective& objective, torch::nn::Module& model, const Batch& batch,
                    std::size_t metrics) {
  auto tally = objective.measure(model, batch);
  if (tally.metrics.size() != metrics)
    throw InputError(fmt::format("Objective::measure gave {} numbers for {} metrics",
                                 tally.metrics.size(), metrics));
  return tally;
}

}  // namespace sullae::train

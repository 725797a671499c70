#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>

#include "sullae/error.h"
#include "sullae/train/objective.h"

namespace sullae::train {
namespace {

// Tensors of other shapes would be broadcast, and a wrong loss fall.
torch::Tensor errors(const torch::Tensor& numbers, const torch::Tensor& labels) {
  if (numbers.sizes() != labels.sizes())
    throw InputError(
        fmt::format("Regression: the model gives [{}] for labels of [{}]: expected the same shape",
                    fmt::join(numbers.sizes().vec(), ", "), fmt::join(labels.sizes().vec(), ", ")));
  return numbers.to(torch::kFloat32) - labels;
}

}  // namespace

torch::Tensor Regression::loss(torch::nn::Module& model, const Batch& batch) const {
  return errors(forward_(model, batch), batch.labels).square().mean();
}

std::vector<Metric> Regression::metrics() const {
  const auto root = [](double mean) {
    return std::sqrt(mean);
  };
  return {{.name = "rmse", .higher_is_better = false, .of_mean = root},
          {.name = "mae", .higher_is_better = false}};
}

Tally Regression::measure(torch::nn::Module& model, const Batch& batch) const {
  const auto each = errors(forward_(model, batch), batch.labels);
  const Sum squares{each.square().sum().item<double>(), static_cast<double>(each.numel())};
  return {.loss = squares, .metrics = {squares, {each.abs().sum().item<double>(), squares.count}}};
}

}  // namespace sullae::train

#include <torch/torch.h>

#include <cmath>

#include "sullae/train/objective.h"

namespace sullae::train {
namespace {

namespace F = torch::nn::functional;

// [batch, time]; 0 where there is no token.
torch::Tensor losses(const torch::Tensor& scores, const torch::Tensor& tokens) {
  const auto options = F::CrossEntropyFuncOptions()
                           .reduction(torch::kNone)
                           .ignore_index(LanguageModelling::kNoToken);
  return F::cross_entropy(scores.to(torch::kFloat32).flatten(0, 1), tokens.flatten(), options)
      .view_as(tokens);
}

}  // namespace

torch::Tensor LanguageModelling::loss(torch::nn::Module& model, const Batch& batch) const {
  const auto counts = batch.labels.ne(kNoToken).sum(1).clamp_min(1);
  return (losses(forward_(model, batch), batch.labels).sum(1) / counts).mean();
}

std::vector<Metric> LanguageModelling::metrics() const {
  const auto perplexity = [](double mean) {
    return std::exp(mean);
  };
  return {{.name = "perplexity", .higher_is_better = false, .of_mean = perplexity},
          {.name = "accuracy", .in_percent = true}};
}

Tally LanguageModelling::measure(torch::nn::Module& model, const Batch& batch) const {
  const auto scores = forward_(model, batch);
  const auto count = batch.labels.ne(kNoToken).sum().item<double>();
  const Sum loss{losses(scores, batch.labels).sum().item<double>(), count};
  return {.loss = loss,
          .metrics = {loss, {scores.argmax(2).eq(batch.labels).sum().item<double>(), count}}};
}

}  // namespace sullae::train

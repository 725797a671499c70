#include "train/staged_model.h"

#include <torch/torch.h>

#include <utility>

#include "sullae/torch.h"
#include "train/checked_objective.h"
#include "train/device.h"

namespace sullae::train {
namespace {

// The numbers of so many batches.
torch::Tensor numbers(std::size_t count) {
  return torch::arange(static_cast<std::int64_t>(count), torch::kInt64);
}

torch::Tensor as_numbers(const Tally& tally) {
  std::vector<double> all = {tally.loss.sum, tally.loss.count};
  for (const Sum& metric : tally.metrics) all.insert(all.end(), {metric.sum, metric.count});
  return torch::tensor(all, torch::kFloat64).unsqueeze(0);
}

// What the model begins with, while this is there.
class Beginning {
 public:
  Beginning(HasStages& stages, const torch::Tensor& arrived) : stages_(stages) {
    stages_.begin_with(arrived);
  }
  ~Beginning() { stages_.begin_with({}); }
  Beginning(const Beginning&) = delete;
  Beginning& operator=(const Beginning&) = delete;

 private:
  HasStages& stages_;
};

Tally as_tally(const torch::Tensor& numbers) {
  const auto* const all = numbers.data_ptr<double>();
  Tally tally{.loss = {.sum = all[0], .count = all[1]}, .metrics = {}};
  for (std::int64_t i = 2; i < numbers.numel(); i += 2)
    tally.metrics.push_back({.sum = all[i], .count = all[i + 1]});
  return tally;
}

}  // namespace

// The pipeline has no parameters: those of the model are updated, and saved, as those of models
// whose layers are in parts.
StagedModel::StagedModel(torch::nn::Module& model, HasStages& stages, const Objective& objective)
    : model_(model), stages_(stages), objective_(objective), world_(*stages.stages()) {
  std::vector<PipelineStage> own;
  for (int stage = 0; stage < stages.stages_per_rank(); ++stage)
    own.emplace_back(std::make_shared<torch::nn::Module>(),
                     [this, stage](const torch::Tensor& arrived) { return run(stage, arrived); });
  const char* const schedule = own.size() > 1 ? "interleaved" : "1f1b";
  pipeline_ =
      std::make_unique<Pipeline>(std::move(own), world_, PipelineOptions{.schedule = schedule});
}

std::size_t StagedModel::batches_together() const {
  return 4 * static_cast<std::size_t>(world_.size());
}

void StagedModel::begin(const std::vector<Batch>& batches, Last last) {
  batches_ = &batches;
  next_.assign(static_cast<std::size_t>(stages_.stages_per_rank()), 0);
  last_ = std::move(last);
}

// They come in their order, forward, in whatever order they go backward.
torch::Tensor StagedModel::run(int own, const torch::Tensor& arrived) {
  const std::size_t at = next_[static_cast<std::size_t>(own)]++;
  const Batch& batch = batches_->at(at);
  const bool is_first = world_.rank() == 0 && own == 0;
  const bool is_last = has_last() && own == stages_.stages_per_rank() - 1;
  const auto here = is_first ? torch::Tensor() : arrived.to(device_of(model_));
  if (!is_last) return stages_.run_stage(own, batch, here);
  const Beginning beginning(stages_, here);
  return last_(batch, at);
}

double StagedModel::train(const std::vector<Batch>& batches, const std::vector<double>& weights,
                          double scale) {
  if (batches.empty()) return 0;
  const auto count = static_cast<double>(batches.size());
  begin(batches, [&](const Batch& batch, std::size_t at) {
    // Of which the pipeline takes the mean.
    return checked_loss(objective_, model_, batch) * (weights[at] * count);
  });
  const auto as_it_is = [](const torch::Tensor& loss, const torch::Tensor&) {
    return loss;
  };
  const auto all = numbers(batches.size());
  return pipeline_->step(all, all, as_it_is, scale, static_cast<int>(batches.size()));
}

std::vector<Tally> StagedModel::measure(const std::vector<Batch>& batches) {
  if (batches.empty()) return {};
  const auto metrics = objective_.metrics().size();
  begin(batches, [&](const Batch& batch, std::size_t) {
    return as_numbers(checked_tally(objective_, model_, batch, metrics));
  });
  auto measured = pipeline_->forward(numbers(batches.size()), static_cast<int>(batches.size()));
  const auto count = static_cast<std::int64_t>(batches.size());
  if (!has_last())
    measured = torch::empty({count, 2 + 2 * static_cast<std::int64_t>(metrics)}, torch::kFloat64);
  broadcast(measured, world_.size() - 1, world_);
  std::vector<Tally> tallies;
  for (std::int64_t i = 0; i < count; ++i) tallies.push_back(as_tally(measured[i]));
  return tallies;
}

}  // namespace sullae::train

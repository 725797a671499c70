#include "train/evaluation.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "sullae/error.h"
#include "train/checked_objective.h"
#include "train/device.h"
#include "train/staged_model.h"

namespace sullae::train {
namespace {

// Each sample on one rank.
BatchPlan plan_of(const std::vector<std::size_t>& samples, std::size_t batch, const World& world) {
  BatchPlan plan;
  for (auto i = static_cast<std::size_t>(world.rank()); i < samples.size();
       i += static_cast<std::size_t>(world.size())) {
    if (plan.empty() || plan.back().size() == batch) plan.emplace_back();
    plan.back().push_back(samples[i]);
  }
  return plan;
}

// As many batches as rank 0 has, which has the most; those that are added are of one sample.
void fill(BatchPlan& plan, const std::vector<std::size_t>& samples, std::size_t batch,
          const World& world) {
  if (samples.empty()) return;
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::size_t most = (samples.size() + ranks * batch - 1) / (ranks * batch);
  plan.resize(most, {samples.front()});
}

void add(const Sum& one, Sum& sum) {
  sum.sum += one.sum;
  sum.count += one.count;
}

double mean(const Sum& sum) { return sum.sum / std::max(sum.count, 1.0); }

}  // namespace

Evaluation evaluate(const Tested& tested, Split split, const std::vector<std::size_t>& samples,
                    std::size_t epoch, const World& world) {
  const torch::NoGradGuard guard;
  const bool was_training = tested.model.is_training();
  tested.model.eval();
  const auto metrics = tested.objective.metrics();
  std::vector<Sum> sums(1 + metrics.size());
  const auto device = device_of(tested.model);
  auto plan = plan_of(samples, tested.data.test_batch_size(), world);
  const std::size_t own = plan.size();
  if (tested.together) fill(plan, samples, tested.data.test_batch_size(), world);
  const auto stream = tested.data.batches(split, std::move(plan), epoch);
  std::size_t number = 0;
  const auto count = [&](const Tally& tally) {
    if (number++ >= own) return;
    add(tally.loss, sums[0]);
    for (std::size_t i = 0; i < metrics.size(); ++i) add(tally.metrics[i], sums[i + 1]);
  };
  // Batches that every rank has.
  const std::size_t fewest = samples.size() / static_cast<std::size_t>(world.size());
  const std::size_t batch_size = tested.data.test_batch_size();
  std::size_t asks = tested.is_to_leave ? (fewest + batch_size - 1) / batch_size : 0;
  std::vector<Batch> batches;  // for all stages to be at work
  while (const auto next = stream->next()) {
    if (asks > 0 && (--asks, tested.is_to_leave())) break;
    auto batch = next->to(device, tested.input_type);
    if (tested.staged == nullptr) {
      count(checked_tally(tested.objective, tested.model, batch, metrics.size()));
      continue;
    }
    batches.push_back(std::move(batch));
    if (batches.size() < tested.staged->batches_together()) continue;
    for (const Tally& tally : tested.staged->measure(std::exchange(batches, {}))) count(tally);
  }
  if (tested.staged != nullptr)
    for (const Tally& tally : tested.staged->measure(batches)) count(tally);
  tested.model.train(was_training);
  static_assert(sizeof(Sum) == 2 * sizeof(double));
  world.allreduce(sums.data(), sums.data(), 2 * sums.size(), DataType::float64);
  Evaluation result{.loss = mean(sums[0]), .metrics = {}, .counts = {}};
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const double value = mean(sums[i + 1]);
    result.counts[metrics[i].name] = sums[i + 1].count;
    result.metrics[metrics[i].name] =
        metrics[i].of_mean == nullptr ? value : metrics[i].of_mean(value);
  }
  return result;
}

Evaluation evaluate(const Tested& tested, std::size_t epoch, const World& world) {
  std::vector<std::size_t> all(tested.data.size(Split::test));
  std::iota(all.begin(), all.end(), std::size_t{0});
  return evaluate(tested, Split::test, all, epoch, world);
}

std::string format_metric(const Metric& metric, double value) {
  return metric.in_percent ? fmt::format("{:.2f} %", 100 * value) : fmt::format("{:.5g}", value);
}

}  // namespace sullae::train

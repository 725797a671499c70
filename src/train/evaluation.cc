#include "train/evaluation.h"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>

namespace sullae::train {
namespace {

constexpr std::size_t kBatch = 250;

// Each sample on one rank.
BatchPlan plan_of(const std::vector<std::size_t>& samples, const World& world) {
  BatchPlan plan;
  for (auto i = static_cast<std::size_t>(world.rank()); i < samples.size();
       i += static_cast<std::size_t>(world.size())) {
    if (plan.empty() || plan.back().size() == kBatch) plan.emplace_back();
    plan.back().push_back(samples[i]);
  }
  return plan;
}

}  // namespace

Evaluation evaluate(Task& task, Split split, const std::vector<std::size_t>& samples,
                    std::size_t epoch, const torch::Device& device, torch::ScalarType input_type,
                    const World& world) {
  const torch::NoGradGuard guard;
  const auto model = task.model();
  const bool was_training = model->is_training();
  model->eval();
  double sums[3] = {0, 0, 0};  // loss, correct, samples
  const auto stream = task.batches(split, plan_of(samples, world), epoch);
  while (const auto next = stream->next()) {
    const Batch batch = next->to(device, input_type);
    const auto scores = dynamic_cast<Classifier&>(*model).scores(batch).to(torch::kFloat32);
    const auto count = static_cast<double>(batch.size());
    sums[0] += torch::nn::functional::cross_entropy(scores, batch.labels).item<double>() * count;
    sums[1] += scores.argmax(1).eq(batch.labels).sum().item<double>();
    sums[2] += count;
  }
  model->train(was_training);
  world.allreduce(sums, sums, 3, DataType::float64);
  const double count = std::max(sums[2], 1.0);
  return {sums[0] / count, sums[1] / count};
}

Evaluation evaluate(Task& task, std::size_t epoch, const torch::Device& device,
                    torch::ScalarType input_type, const World& world) {
  std::vector<std::size_t> all(task.size(Split::test));
  std::iota(all.begin(), all.end(), std::size_t{0});
  return evaluate(task, Split::test, all, epoch, device, input_type, world);
}

}  // namespace sullae::train

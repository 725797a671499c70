#include "train/evaluation.h"

#include <torch/torch.h>

#include <algorithm>

namespace sullae::train {
namespace {

constexpr std::size_t kBatch = 250;

// Each sample on one rank.
BatchPlan plan_of(std::size_t count, const World& world) {
  BatchPlan plan;
  for (auto i = static_cast<std::size_t>(world.rank()); i < count;
       i += static_cast<std::size_t>(world.size())) {
    if (plan.empty() || plan.back().size() == kBatch) plan.emplace_back();
    plan.back().push_back(i);
  }
  return plan;
}

}  // namespace

Evaluation evaluate(Task& task, std::size_t epoch, const torch::Device& device,
                    torch::ScalarType input_type, World& world) {
  const torch::NoGradGuard guard;
  const auto model = task.model();
  const bool was_training = model->is_training();
  model->eval();
  double sums[3] = {0, 0, 0};  // loss, correct, samples
  const auto stream = task.batches(Split::test, plan_of(task.size(Split::test), world), epoch);
  while (const auto next = stream->next()) {
    const Batch batch = next->to(device, input_type);
    const auto scores = dynamic_cast<Classifier&>(*model).scores(batch).to(torch::kFloat32);
    const auto samples = static_cast<double>(batch.size());
    sums[0] += torch::nn::functional::cross_entropy(scores, batch.labels).item<double>() * samples;
    sums[1] += scores.argmax(1).eq(batch.labels).sum().item<double>();
    sums[2] += samples;
  }
  model->train(was_training);
  world.allreduce(sums, sums, 3, DataType::float64);
  const double count = std::max(sums[2], 1.0);
  return {sums[0] / count, sums[1] / count};
}

}  // namespace sullae::train

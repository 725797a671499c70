#include "sullae/train/data.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <chrono>

#include "sullae/error.h"

namespace sullae::train {
namespace {

class Assembled final : public BatchStream {
 public:
  using Make = std::function<Batch(const std::vector<std::size_t>&)>;

  Assembled(BatchPlan plan, Make make) : plan_(std::move(plan)), make_(std::move(make)) {}
  std::optional<Batch> next() override {
    if (next_ == plan_.size()) return std::nullopt;
    const auto start = std::chrono::steady_clock::now();
    Batch batch = make_(plan_[next_++]);
    waited_ += std::chrono::steady_clock::now() - start;
    return batch;
  }
  double seconds_waited() const override { return std::chrono::duration<double>(waited_).count(); }

 private:
  BatchPlan plan_;
  Make make_;
  std::size_t next_ = 0;
  std::chrono::steady_clock::duration waited_{};
};

std::int64_t rows(const torch::Tensor& tensor) {
  return tensor.defined() && tensor.dim() > 0 ? tensor.size(0) : 0;
}

void check_equally_many(const TensorData::Samples& samples, const char* split) {
  if (rows(samples.input) == rows(samples.labels)) return;
  throw InputError(
      fmt::format("TensorData: {} inputs and {} labels for the {}: expected equally many",
                  rows(samples.input), rows(samples.labels), split));
}

}  // namespace

Batch Batch::to(const torch::Device& device, torch::ScalarType type) const {
  Batch moved;
  for (const auto& input : inputs) {
    const auto target = input.is_floating_point() ? type : input.scalar_type();
    moved.inputs.push_back(input.to(device, target, /*non_blocking=*/true));
  }
  moved.labels = labels.to(device, /*non_blocking=*/true);
  return moved;
}

std::unique_ptr<BatchStream> assemble(
    BatchPlan plan, std::function<Batch(const std::vector<std::size_t>& samples)> make) {
  return std::make_unique<Assembled>(std::move(plan), std::move(make));
}

TensorData::TensorData(Samples train, Samples test, std::string description)
    : train_(std::move(train)), test_(std::move(test)), description_(std::move(description)) {
  check_equally_many(train_, "training");
  check_equally_many(test_, "test");
}

std::size_t TensorData::size(Split split) const {
  return static_cast<std::size_t>(rows(of(split).labels));
}

std::unique_ptr<BatchStream> TensorData::batches(Split split, BatchPlan plan, std::size_t) {
  return assemble(std::move(plan), [&set = of(split)](const std::vector<std::size_t>& samples) {
    const auto index = torch::tensor(std::vector<std::int64_t>(samples.begin(), samples.end()));
    return Batch{{set.input.index_select(0, index)}, set.labels.index_select(0, index)};
  });
}

}  // namespace sullae::train

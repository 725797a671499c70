// A reduction of gradients of one's own, from outside, as docs/extending.md shows it.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>

#include "support/ranks.h"
#include "torch/reduction/dense_reduction.h"
#include "torch/small_net.h"

namespace sullae::testing {
namespace {

std::atomic<int> reductions = 0;

// Sums in float64, on the first rank.
class Exact final : public DenseReduction {
 public:
  explicit Exact(const ReductionRequest& request)
      : DenseReduction(request, GradientMemory::shared(request)) {}

  void reduce(Communicator& communicator) override {
    ++reductions;
    torch::Tensor sum = memory().flat.to(torch::kFloat64);
    const auto count = static_cast<std::size_t>(sum.numel());
    communicator.reduce(sum.data_ptr(), sum.data_ptr(), count, DataType::float64, op(), 0);
    communicator.broadcast(sum.data_ptr(), count, DataType::float64, 0);
    memory().flat.copy_(sum);
  }
};

TEST(Extending, AReductionOfOnesOwn) {
  register_reduction([](const ReductionRequest& request) -> std::unique_ptr<BucketReduction> {
    if (!request.parameters.empty() && request.parameters.front().name.starts_with("exact"))
      return std::make_unique<Exact>(request);
    return nullptr;
  });
  const Data data;
  expect_as_in_one_process([&](World& world) {
    auto net = data.clone();
    torch::OrderedDict<std::string, torch::Tensor> named;
    for (const auto& item : net->named_parameters())
      named.insert("exact." + item.key(), item.value());
    torch::optim::SGD sgd(net->parameters(), 0.1);
    DistributedOptimizer optimizer(sgd, named, small_buckets(), world);
    for (const auto& batch : data.batches) {
      optimizer.zero_grad();
      net->forward(part(batch, world)).square().mean().backward();
      optimizer.step();
    }
    return copy_of(net->parameters());
  });
  EXPECT_GT(reductions, 0);
}

}  // namespace
}  // namespace sullae::testing

#include "train/batches/memory.h"

#include <torch/torch.h>

namespace sullae::train {

std::unique_ptr<BatchStream> stream_from_memory(const ImageTensors& set, BatchPlan plan) {
  return assemble(std::move(plan), [&set](const std::vector<std::size_t>& samples) {
    std::vector<std::int64_t> numbers(samples.begin(), samples.end());
    const auto index = torch::from_blob(numbers.data(), {static_cast<std::int64_t>(numbers.size())},
                                        torch::kInt64);
    auto images = (set.images.index_select(0, index).to(torch::kFloat32) - 255 * set.mean) /
                  (255 * set.deviation);
    return Batch{{images}, set.labels.index_select(0, index)};
  });
}

}  // namespace sullae::train

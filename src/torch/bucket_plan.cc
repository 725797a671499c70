#include "torch/bucket_plan.h"

#include <algorithm>
#include <map>

namespace sullae {
namespace {

constexpr std::size_t kAlignment = 64;  // bytes

}  // namespace

std::size_t aligned_elements(const torch::Tensor& tensor) {
  const std::size_t granule = kAlignment / tensor.element_size();
  return (static_cast<std::size_t>(tensor.numel()) + granule - 1) / granule * granule;
}

std::vector<PlannedBucket> plan_buckets(const std::vector<PlannedParameter>& parameters,
                                        const std::vector<std::size_t>& order,
                                        std::size_t bucket_bytes) {
  std::vector<PlannedBucket> buckets;
  std::map<torch::ScalarType, std::size_t> open;  // the bucket of each type that still has room
  for (const std::size_t index : order) {
    const PlannedParameter& parameter = parameters[index];
    const torch::ScalarType type = parameter.tensor.scalar_type();
    if (parameter.sparse) {
      buckets.push_back({.parameters = {index}, .type = type, .sparse = true});
      continue;
    }
    const std::size_t elements = aligned_elements(parameter.tensor);
    const auto found = open.find(type);
    const bool fits = found != open.end() && (buckets[found->second].gradient_elements + elements) *
                                                     parameter.tensor.element_size() <=
                                                 bucket_bytes;
    if (!fits) {
      open[type] = buckets.size();
      buckets.push_back({.type = type});
    }
    PlannedBucket& bucket = buckets[open[type]];
    bucket.parameters.push_back(index);
    bucket.gradient_elements += elements;
  }
  return buckets;
}

FirstStep agree(const FirstStep& seen, World& world) {
  FirstStep agreed = seen;
  world.allreduce(agreed.kinds.data(), agreed.kinds.data(), agreed.kinds.size(), DataType::int64,
                  ReduceOp::max);
  // A fixed length for the broadcast: what was not ready comes last, from the last parameter to the
  // first, as backward tends to go.
  for (std::int64_t i = static_cast<std::int64_t>(agreed.kinds.size()) - 1; i >= 0; --i) {
    if (std::ranges::find(agreed.ready_order, i) == agreed.ready_order.end())
      agreed.ready_order.push_back(i);
  }
  world.broadcast(agreed.ready_order.data(), agreed.ready_order.size(), DataType::int64, 0);
  return agreed;
}

}  // namespace sullae

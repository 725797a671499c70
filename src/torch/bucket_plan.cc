#include "torch/bucket_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include "base/hash.h"
#include "base/log.h"
#include "collective/counts.h"
#include "sullae/adapter.h"
#include "torch/agreement.h"

namespace sullae {

namespace {

// A model is cut into about so many buckets at least, but not into smaller ones than this.
constexpr std::size_t kBuckets = 4;
constexpr std::size_t kLeastBytes = std::size_t{64} << 10;

std::size_t limit_of(const std::vector<PlannedParameter>& parameters, std::size_t bucket_bytes) {
  std::size_t total = 0;
  for (const PlannedParameter& parameter : parameters) {
    if (!parameter.sparse)
      total += aligned_elements(parameter.tensor) * parameter.tensor.element_size();
  }
  return std::min(bucket_bytes, std::max(total / kBuckets, kLeastBytes));
}

}  // namespace

std::size_t aligned_elements(const torch::Tensor& tensor) {
  return padded_to_lines(static_cast<std::size_t>(tensor.numel()), tensor.element_size());
}

std::vector<PlannedBucket> plan_buckets(const std::vector<PlannedParameter>& parameters,
                                        const std::vector<std::size_t>& order,
                                        std::size_t bucket_bytes) {
  const std::size_t limit = limit_of(parameters, bucket_bytes);
  std::vector<PlannedBucket> buckets;
  // The bucket of each type and device that still has room.
  std::map<std::pair<torch::ScalarType, std::string>, std::size_t> open;
  for (const std::size_t index : order) {
    const PlannedParameter& parameter = parameters[index];
    const torch::ScalarType type = parameter.tensor.scalar_type();
    const torch::Device device = parameter.tensor.device();
    const auto kind = std::pair(type, device.str());
    if (parameter.sparse) {
      buckets.push_back({.parameters = {index}, .type = type, .device = device, .sparse = true});
      continue;
    }
    const std::size_t elements = aligned_elements(parameter.tensor);
    if (parameter.alone) {
      buckets.push_back(
          {.parameters = {index}, .type = type, .device = device, .gradient_elements = elements});
      continue;
    }
    const auto found = open.find(kind);
    const bool fits = found != open.end() && (buckets[found->second].gradient_elements + elements) *
                                                     parameter.tensor.element_size() <=
                                                 limit;
    if (!fits) {
      open[kind] = buckets.size();
      buckets.push_back({.type = type, .device = device});
    }
    PlannedBucket& bucket = buckets[open[kind]];
    bucket.parameters.push_back(index);
    bucket.gradient_elements += elements;
  }
  if (std::ranges::all_of(buckets, &PlannedBucket::sparse)) buckets.emplace_back();
  return buckets;
}

std::uint64_t hash_of(const std::vector<PlannedBucket>& buckets) {
  std::vector<std::size_t> words;
  for (const PlannedBucket& bucket : buckets) {
    words.insert(words.end(), {bucket.parameters.size(), static_cast<std::size_t>(bucket.type),
                               static_cast<std::size_t>(bucket.sparse)});
    words.insert(words.end(), bucket.parameters.begin(), bucket.parameters.end());
  }
  return hash_of(words);
}

void check_same_parameters(const std::vector<PlannedParameter>& parameters,
                           const std::string& options, const World& world, const std::string& who) {
  // A line for the options, and one a parameter.
  std::string mine = "made with " + options + "\n";
  for (const PlannedParameter& parameter : parameters) {
    mine += fmt::format(
        "'{}' ({} [{}]{})\n", parameter.name, c10::toString(parameter.tensor.scalar_type()),
        fmt::join(parameter.tensor.sizes(), ", "),
        parameter.strides.empty()
            ? ""
            : fmt::format(" with strides [{}]", fmt::join(parameter.strides, ", ")));
  }
  const auto found = first_difference(world, mine);
  if (!found) return;
  const auto describe = [](const std::string& line) {
    return line.empty() ? std::string("none") : line;
  };
  if (found->line == 0) {
    throw MismatchError(fmt::format("{}: ranks disagree: it is {} on rank 0, but {} on rank {}",
                                    who, found->on_rank_0, found->on_rank, found->rank));
  }
  throw MismatchError(fmt::format(
      "{}: ranks disagree about the model: parameter {} is {} on rank 0, but {} on rank {}", who,
      found->line - 1, describe(found->on_rank_0), describe(found->on_rank), found->rank));
}

std::string name_of(const PlannedBucket& bucket, std::size_t index, std::uint64_t optimizer,
                    const std::vector<PlannedParameter>& parameters) {
  const auto& members = bucket.parameters;
  std::string text = optimizer == 0 ? "" : fmt::format("optimizer {} ", optimizer);
  text += fmt::format("bucket {}", index);
  if (!members.empty()) text += ": " + parameters[members.front()].name;
  if (members.size() > 1) text += " … " + parameters[members.back()].name;
  return text;
}

FirstStep agree(const FirstStep& seen, const World& world) {
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

void warn_where_unequal(const std::vector<PlannedParameter>& parameters, const World& world) {
  // Who draws weights of his own draws the first ones, too.
  constexpr std::int64_t kLookedAt = 256;
  constexpr std::uint64_t kPositive = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> least;
  for (const PlannedParameter& parameter : parameters) {
    const auto all = parameter.tensor.detach().reshape(-1);
    const auto some =
        all.narrow(0, 0, std::min(all.numel(), kLookedAt)).contiguous().to(torch::kCPU);
    const std::string_view bytes(static_cast<const char*>(some.data_ptr()), some.nbytes());
    least.push_back(static_cast<std::int64_t>(fnv1a(bytes) & kPositive));
  }
  std::vector<std::int64_t> most = least;
  world.allreduce(least.data(), least.data(), least.size(), DataType::int64, ReduceOp::min);
  world.allreduce(most.data(), most.data(), most.size(), DataType::int64, ReduceOp::max);
  const auto differs = std::ranges::mismatch(least, most).in1;
  if (differs == least.end() || world.rank() != 0) return;
  log::warning(
      "DistributedOptimizer: parameter '{}' has not the same values on all ranks, which train "
      "models that differ: call broadcast_parameters() before the first step",
      parameters[static_cast<std::size_t>(differs - least.begin())].name);
}

}  // namespace sullae

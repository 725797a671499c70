// Which gradient goes where: the plan that the first step makes and all later steps follow.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sullae/sullae.h"
#include "sullae/torch.h"

namespace sullae {

/// A parameter, and what the first step learnt about its gradient.
struct PlannedParameter {
  std::string name;
  torch::Tensor tensor;
  /// Of one that fills its memory in another order than a contiguous one's (channels_last); else
  /// empty. Its gradient is laid out as it is, as autograd has it.
  std::vector<std::int64_t> strides = {};
  bool sparse = false;
  /// It is, and travels as a dense one.
  bool made_dense = false;
  /// In a bucket of its own.
  bool alone = false;
};

/// One unit of reduction, started when all of its gradients are ready: several dense gradients of
/// one type on one device, or one sparse one.
struct PlannedBucket {
  std::vector<std::size_t> parameters;
  torch::ScalarType type = torch::kFloat32;
  torch::Device device = torch::kCPU;
  bool sparse = false;
  std::size_t gradient_elements = 0;
  /// Elements behind the gradients: a flag for each parameter, and one for the rank.
  std::size_t flags() const { return parameters.size() + 1; }
  std::size_t total_elements() const { return gradient_elements + flags(); }
  std::size_t bytes() const { return total_elements() * c10::elementSize(type); }
};

/// Groups `parameters` in the given order into buckets of at most `bucket_bytes`, or of one
/// parameter that is larger. Small models get smaller buckets, so that all but the last can travel
/// during backward. Each gradient starts at a multiple of 64 bytes. At least one bucket is dense,
/// be it an empty one, since the ranks' flags travel with dense buckets.
std::vector<PlannedBucket> plan_buckets(const std::vector<PlannedParameter>& parameters,
                                        const std::vector<std::size_t>& order,
                                        std::size_t bucket_bytes);

/// The `index`-th of optimizer `optimizer`, for people: "bucket 0: head.bias … left.weight".
std::string name_of(const PlannedBucket& bucket, std::size_t index, std::uint64_t optimizer,
                    const std::vector<PlannedParameter>& parameters);

/// The same on ranks that have the same plan.
std::uint64_t hash_of(const std::vector<PlannedBucket>& buckets);

/// Elements that a dense gradient takes in its bucket.
std::size_t aligned_elements(const torch::Tensor& tensor);

/// What one rank saw in its first step: the order in which gradients became ready, and the kind of
/// each.
struct FirstStep {
  std::vector<std::int64_t> ready_order;
  /// A parameter without a gradient is `none`.
  enum Kind : std::int64_t { none = 0, dense = 1, sparse = 2 };
  std::vector<std::int64_t> kinds;
};

/// Throws MismatchError on every rank, with the first difference, unless all ranks have the same
/// parameters: names, shapes and types, in the same order; and the same options. `who` begins the
/// message. Collective.
void check_same_parameters(const std::vector<PlannedParameter>& parameters,
                           const std::string& options, const World& world, const std::string& who);

/// Makes all ranks agree: rank 0's order, followed by what rank 0 did not see; a kind is sparse
/// where any rank saw it so.
FirstStep agree(const FirstStep& seen, const World& world);

/// On rank 0, of the first parameter that has other values on some ranks, as far as its first
/// values show. Collective.
void warn_where_unequal(const std::vector<PlannedParameter>& parameters, const World& world);

}  // namespace sullae

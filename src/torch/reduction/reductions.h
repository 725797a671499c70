// Sullae's own reductions, a file each.
#pragma once

#include <memory>

#include "torch/reduction/bucket_reduction.h"

namespace sullae {

/// The rows of one sparse gradient, which stays sparse.
std::unique_ptr<BucketReduction> make_sparse_reduction(const ReductionRequest& request);
/// By the policy of DistributedOptimizerOptions::compression.
std::unique_ptr<BucketReduction> make_compressed_reduction(const ReductionRequest& request);
std::unique_ptr<BucketReduction> make_adasum_reduction(const ReductionRequest& request);
/// On the GPU, where others can reach it.
std::unique_ptr<BucketReduction> make_device_reduction(const ReductionRequest& request);
/// One allreduce of memory that the host's ranks share. For every request.
std::unique_ptr<BucketReduction> make_plain_reduction(const ReductionRequest& request);

}  // namespace sullae

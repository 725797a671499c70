// Sparse gradients as sorted rows: how they are summed within a rank and between ranks.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "sullae/types.h"

namespace sullae {

class Communicator;

/// True for gradients that can travel as rows: sparse in dimension 0 alone, in host memory, of
/// float32 or float64.
bool is_row_sparse(const torch::Tensor& gradient);

/// Rows of a [rows, …] tensor: ascending, distinct row numbers, and `values` [indices.size(), …].
struct SparseRows {
  std::vector<std::int64_t> indices;
  torch::Tensor values;

  /// From a sparse gradient, which may name a row several times: those are summed.
  static SparseRows from(const torch::Tensor& gradient);
  /// A coalesced sparse tensor of the given shape, sharing the values.
  torch::Tensor to_tensor(torch::IntArrayRef shape) const;
};

/// What all ranks' rows add up to.
struct ReducedRows {
  SparseRows rows;
  /// False when no rank had a gradient at all.
  bool used = false;
};

/// Gathers every rank's rows and sums those of the same number, in the order of ranks; an average
/// divides by the number of ranks. `used` says whether this rank has a gradient. Only sum and
/// average make sense for rows that some ranks lack.
ReducedRows reduce_rows(Communicator& communicator, const SparseRows& mine, bool used, ReduceOp op);

}  // namespace sullae

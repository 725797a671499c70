// Sparse gradients as sorted rows: how they are summed within a rank and between ranks.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "sullae/types.h"

namespace sullae {

class Communicator;

/// True for gradients that can travel as rows: sparse in dimension 0 alone, of floating point.
bool is_row_sparse(const torch::Tensor& gradient);

/// What rows of gradients of a type are summed in.
torch::ScalarType row_type(torch::ScalarType type);

/// Rows of a [rows, …] tensor: ascending, distinct row numbers, and `values` [indices.size(), …].
struct SparseRows {
  std::vector<std::int64_t> indices;
  torch::Tensor values;

  /// From a sparse gradient, on whatever device, which may name a row several times: those are
  /// summed. In host memory, and in float32 where it is in 16 bits.
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

/// Sums every rank's rows of the same number; an average divides by the number of ranks. Rows and
/// their numbers are gathered, or, where that moves fewer bytes, the whole of the `all_rows` rows
/// is reduced and the touched ones are taken from it: the result is the same up to rounding. `used`
/// says whether this rank has a gradient. Only sum and average make sense for rows that some ranks
/// lack.
ReducedRows reduce_rows(Communicator& communicator, const SparseRows& mine, bool used,
                        std::int64_t all_rows, ReduceOp op);

/// Which of the two ways reduce_rows takes for so many rows of all ranks together.
bool moves_fewer_bytes_dense(std::size_t gathered_rows, std::size_t all_rows,
                             std::size_t row_bytes);

}  // namespace sullae

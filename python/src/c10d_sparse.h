// all_reduce of sparse tensors (COO), as DDP does for an Embedding(sparse=True).
#pragma once

#include "c10d_reduction.h"

namespace sullae::python {

/// Throws InputError for a sparse tensor that cannot be reduced so.
void check_sparse(const at::Tensor& tensor, const Reduction& reduction);

/// `tensor` becomes the sum or average of every rank's, coalesced; ranks may have elements in
/// different places. Throws MismatchError, on all ranks, where shapes or types differ.
void reduce_sparse(Communicator& ranks, at::Tensor tensor, const Reduction& reduction);

}  // namespace sullae::python

// Elementwise reduction of the ranks' buffers in memory, in the best instruction set of this
// processor.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "sullae/types.h"

namespace sullae::reduction {

/// What to compute: `outputs[j][i] = scale(inputs[0][i] op inputs[1][i] op …)` for every output j.
struct Task {
  const void* const* inputs = nullptr;
  std::size_t input_count = 0;  ///< at least 1
  void* const* outputs = nullptr;
  std::size_t output_count = 0;  ///< at least 1
  std::size_t count = 0;         ///< elements
  ReduceOp op = ReduceOp::sum;   ///< `average` divides the sum by `divisor`
  int divisor = 1;
  /// By which each input is multiplied before, in float32: of float16 and bfloat16 alone. Null
  /// multiplies none.
  const int* weights = nullptr;
};

using Kernel = void (*)(const Task&);

/// One kernel for each DataType, compiled for one instruction set.
struct KernelSet {
  std::string_view name;
  Kernel kernels[10];
};

/// The sets that this processor can run, slowest first. Never empty.
std::span<const KernelSet* const> available_kernel_sets();

/// Runs `task` with the fastest set. Inputs are combined in their order, whoever calls, so that
/// every rank that reduces the same inputs gets the same bits. An output may be one of the inputs,
/// at the same position.
void run(const Task& task, DataType type);

/// Throws InputError where `op` has no meaning for `type`.
void check_supported(DataType type, ReduceOp op);
/// The same for reductions other than allreduce.
void check_elementwise(DataType type, ReduceOp op);

}  // namespace sullae::reduction

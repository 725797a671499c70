#include "collective/reduce/reduce.h"

#include <fmt/format.h>

#include "collective/reduce/kernel_sets.h"
#include "sullae/error.h"

namespace sullae::reduction {

std::span<const KernelSet* const> available_kernel_sets() {
  static const std::span<const KernelSet* const> sets = detect_kernel_sets();
  return sets;
}

void run(const Task& task, DataType type) {
  if (task.count == 0) return;
  available_kernel_sets().back()->kernels[static_cast<std::size_t>(type)](task);
}

void check_supported(DataType type, ReduceOp op) {
  if (type == DataType::boolean && op == ReduceOp::average) {
    throw InputError(
        "the average of booleans is not defined: reduce them with sum, product, min or max");
  }
  const bool floating = type == DataType::float32 || type == DataType::float64 ||
                        type == DataType::float16 || type == DataType::bfloat16;
  if (op == ReduceOp::adasum && !floating) {
    throw InputError(fmt::format("adasum is for floating-point values, not for {}", name(type)));
  }
}

void check_elementwise(DataType type, ReduceOp op) {
  if (op == ReduceOp::adasum) throw InputError("adasum is a reduction for allreduce alone");
  check_supported(type, op);
}

}  // namespace sullae::reduction

#include "torch/tensor_checks.h"

#include <ATen/MemoryOverlap.h>
#include <fmt/format.h>

#include "sullae/error.h"

namespace sullae {

std::string shape_of(const torch::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes(), ", "));
}

std::string rows_of(const torch::Tensor& tensor) {
  return fmt::format("rows of [{}]", fmt::join(tensor.sizes().slice(1), ", "));
}

void check_defined(const torch::Tensor& tensor, const char* what) {
  if (!tensor.defined()) throw InputError(fmt::format("{}: the tensor is undefined", what));
  if (tensor.numel() > 0 && tensor.has_storage() && tensor.storage().nbytes() == 0)
    throw InputError(fmt::format("{}: the tensor {} has no memory: its storage was resized to 0",
                                 what, shape_of(tensor)));
  if (tensor.is_neg())
    throw InputError(fmt::format(
        "{}: the tensor {} is a view whose values are negated when they are read: expected its "
        "resolve_neg()",
        what, shape_of(tensor)));
}

void check_writable(const torch::Tensor& tensor, const char* what) {
  check_defined(tensor, what);
  if (tensor.layout() == torch::kStrided &&
      at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
    throw InputError(fmt::format(
        "{}: the tensor {} is expanded: several of its elements are one in memory; expected a "
        "tensor that can be written to, such as its clone()",
        what, shape_of(tensor)));
  }
}

bool is_plain(const torch::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == torch::kStrided && tensor.is_contiguous();
}

void check_plain(const torch::Tensor& tensor, const char* what, const std::string& name) {
  if (is_plain(tensor)) return;
  throw InputError(fmt::format("{}: tensor '{}' {}: expected a contiguous dense one in host memory",
                               what, name.empty() ? "without a name" : name, shape_of(tensor)));
}

}  // namespace sullae

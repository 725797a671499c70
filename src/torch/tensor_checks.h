// What tensors must be so that ranks can exchange them. `what` names the call in messages.
#pragma once

#include <torch/types.h>

#include <string>

namespace sullae {

/// "[2, 3]".
std::string shape_of(const torch::Tensor& tensor);
/// "rows of [3]": what must be alike where dimension 0 may differ between ranks.
std::string rows_of(const torch::Tensor& tensor);

inline std::size_t count_of(const torch::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel());
}

/// Throw InputError.
/// It has values, which are as they are in memory.
void check_defined(const torch::Tensor& tensor, const char* what);
/// Each element has a place of its own.
void check_writable(const torch::Tensor& tensor, const char* what);
/// Contiguous, dense and in host memory: it can be worked on where it is, in the background.
void check_plain(const torch::Tensor& tensor, const char* what, const std::string& name = {});
bool is_plain(const torch::Tensor& tensor);

/// To autograd, as libtorch's own operations in place say it: a backward through what was computed
/// of the values before throws.
inline void note_write(const torch::Tensor& tensor) {
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace sullae

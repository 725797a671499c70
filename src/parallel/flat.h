// Tensors as their elements lie in memory.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>

namespace sullae {

inline std::int64_t length(std::size_t elements) { return static_cast<std::int64_t>(elements); }

/// All elements of a tensor without gaps; a view.
inline torch::Tensor flat_of(const torch::Tensor& tensor) {
  return tensor.detach().as_strided({tensor.numel()}, {1}, tensor.storage_offset());
}

/// Those in [from, to); a view.
inline torch::Tensor range_of(const torch::Tensor& tensor, std::size_t from, std::size_t to) {
  return flat_of(tensor).narrow(0, length(from), length(to - from));
}

}  // namespace sullae

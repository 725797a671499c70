#include "torch/kept_gradients.h"

#include <torch/types.h>

namespace sullae {
namespace {

// glibc takes larger blocks from the system each time, whatever becomes of them
// (DEFAULT_MMAP_THRESHOLD_MAX): a copy would come on top.
constexpr std::size_t kMostBytes = std::size_t{32} << 20;

bool is_kept(const torch::Tensor& gradient) {
  return gradient.defined() && gradient.device().is_cpu() && gradient.layout() == torch::kStrided &&
         !gradient.requires_grad() && gradient.nbytes() <= kMostBytes &&
         // A part of what several gradients share would hold the whole.
         gradient.storage().nbytes() == gradient.nbytes();
}

}  // namespace

void KeptGradients::keep(std::size_t index, const torch::Tensor& parameter) {
  const torch::Tensor& gradient = parameter.grad();
  torch::Tensor& kept = kept_[index];
  if (!is_kept(gradient) || gradient.is_same(kept)) return;
  const bool is_free = kept.defined() && kept.use_count() == 1 && kept.storage().use_count() == 1;
  if (is_free && kept.sizes() == gradient.sizes() && kept.strides() == gradient.strides() &&
      kept.dtype() == gradient.dtype()) {
    kept.copy_(gradient);
    parameter.mutable_grad() = kept;
  } else {
    kept = gradient;
  }
}

}  // namespace sullae

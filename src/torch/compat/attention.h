// Scaled dot-product attention: one call from libtorch 2.0 on.
#pragma once

#include <torch/torch.h>
#include <torch/version.h>

#include <cmath>
#include <limits>
#include <string>

namespace sullae {

/// Queries, keys and values [batch, heads, time, size]. `may_look`, bool, is broadcast to [batch,
/// heads, time, time]; undefined for everywhere. With `causal` each place sees none that comes
/// later.
inline torch::Tensor attention(const torch::Tensor& queries, const torch::Tensor& keys,
                               const torch::Tensor& values, torch::Tensor may_look, bool causal) {
#if TORCH_VERSION_MAJOR >= 2
  const bool both = causal && may_look.defined();
#else
  const bool both = causal;
#endif
  if (both) {
    const auto earlier =
        torch::ones({queries.size(2), keys.size(2)}, queries.options().dtype(torch::kBool)).tril();
    // Padding sees itself: what sees nothing is not a number.
    may_look = may_look.defined() ? may_look.logical_and(earlier).logical_or(
                                        torch::eye(queries.size(2), earlier.options()))
                                  : earlier;
  }
#if TORCH_VERSION_MAJOR >= 2
  if (!may_look.defined())
    return at::scaled_dot_product_attention(queries, keys, values, {}, 0.0, causal);
  return at::scaled_dot_product_attention(queries, keys, values, may_look);
#else
  auto scores = torch::matmul(queries, keys.transpose(2, 3)) /
                std::sqrt(static_cast<double>(queries.size(3)));
  if (may_look.defined())
    scores = scores.masked_fill(may_look.logical_not(), -std::numeric_limits<double>::infinity());
  return torch::matmul(torch::softmax(scores, -1), values);
#endif
}

/// The same as a method of a TorchScript module, with a mask.
#if TORCH_VERSION_MAJOR >= 2
inline const std::string kAttentionScript = R"(
def attention(self, q, k, v, may_look):
    return torch.scaled_dot_product_attention(q, k, v, may_look)
)";
#else
inline const std::string kAttentionScript = R"(
def attention(self, q, k, v, may_look):
    scores = torch.matmul(q, k.transpose(2, 3)) / q.size(3) ** 0.5
    return torch.matmul(torch.softmax(torch.masked_fill(scores, torch.logical_not(may_look), float("-inf")), -1), v)
)";
#endif

}  // namespace sullae

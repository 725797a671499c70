#include "train/models/few_rows.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include "train/models/dot_products.h"

namespace sullae::train {
namespace {

// With more a matrix product is faster.
constexpr std::int64_t kFew = 16;
// Weights that are worth a thread.
constexpr std::int64_t kGrain = 1 << 15;

using Compute = void (*)(const float* weights, std::int64_t size, std::int64_t first,
                         std::int64_t last, const float* inputs, std::int64_t rows, float* out,
                         std::int64_t stride);

void compute_anywhere(const float* weights, std::int64_t size, std::int64_t first,
                      std::int64_t last, const float* inputs, std::int64_t rows, float* out,
                      std::int64_t stride) {
  DotProducts<4>::compute(weights, size, first, last, inputs, rows, out, stride);
}

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void compute_with_avx2(const float* weights, std::int64_t size,
                                                   std::int64_t first, std::int64_t last,
                                                   const float* inputs, std::int64_t rows,
                                                   float* out, std::int64_t stride) {
  DotProducts<8>::compute(weights, size, first, last, inputs, rows, out, stride);
}

Compute best() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? compute_with_avx2
                                                                         : compute_anywhere;
}
#else
Compute best() { return compute_anywhere; }
#endif

bool has_kernel(const torch::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == torch::kFloat32 && tensor.is_contiguous();
}

}  // namespace

torch::Tensor linear_of_few(const torch::Tensor& x, const torch::Tensor& weight,
                            const torch::Tensor& bias) {
  const std::int64_t rows = x.size(0);
  if (rows == 0 || rows > kFew || torch::GradMode::is_enabled() || !has_kernel(x) ||
      !has_kernel(weight))
    return torch::linear(x, weight, bias);
  const std::int64_t in = weight.size(1);
  const std::int64_t out = weight.size(0);
  auto result = torch::empty({rows, out}, x.options());
  const float* inputs = x.data_ptr<float>();
  const float* weights = weight.data_ptr<float>();
  float* outputs = result.data_ptr<float>();
  static const Compute compute = best();
  at::parallel_for(0, out, std::max<std::int64_t>(kGrain / in, 1),
                   [&](std::int64_t first, std::int64_t last) {
                     compute(weights, in, first, last, inputs, rows, outputs, out);
                   });
  return bias.defined() ? result.add_(bias) : result;
}

}  // namespace sullae::train

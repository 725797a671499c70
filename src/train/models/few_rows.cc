#include "train/models/few_rows.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include "train/models/dot_product.h"

namespace sullae::train {
namespace {

// With more a matrix product is faster.
constexpr std::int64_t kFew = 8;
// Bytes: 1.2 times as fast where weights come from memory (docs/performance.md).
constexpr std::int64_t kAhead = 4096;
// Weights that are worth a thread.
constexpr std::int64_t kGrain = 1 << 15;

bool is_plain(const torch::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == torch::kFloat32 && tensor.is_contiguous();
}

}  // namespace

torch::Tensor linear_of_few(const torch::Tensor& x, const torch::Tensor& weight,
                            const torch::Tensor& bias) {
  const std::int64_t rows = x.size(0);
  if (rows == 0 || rows > kFew || torch::GradMode::is_enabled() || !is_plain(x) ||
      !is_plain(weight))
    return torch::linear(x, weight, bias);
  const std::int64_t in = weight.size(1);
  const std::int64_t out = weight.size(0);
  auto result = torch::empty({rows, out}, x.options());
  const float* inputs = x.data_ptr<float>();
  const float* weights = weight.data_ptr<float>();
  const float* biases = bias.defined() ? bias.data_ptr<float>() : nullptr;
  float* outputs = result.data_ptr<float>();
  const auto compute = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const float more = biases != nullptr ? biases[i] : 0;
      outputs[i] = more + dot_product<kAhead>(weights + i * in, inputs, in);
      for (std::int64_t row = 1; row < rows; ++row)
        outputs[row * out + i] = more + dot_product(weights + i * in, inputs + row * in, in);
    }
  };
  at::parallel_for(0, out, std::max<std::int64_t>(kGrain / in, 1), compute);
  return result;
}

}  // namespace sullae::train

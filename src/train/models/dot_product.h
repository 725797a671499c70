#pragma once

#include <array>
#include <cstdint>
#include <numeric>

namespace sullae::train {

/// Sums side by side, which the compiler may not make of one by itself.
inline float dot_product(const float* a, const float* b, std::int64_t size) {
  constexpr std::int64_t kSums = 16;
  std::array<float, kSums> sums{};
  std::int64_t i = 0;
  for (; i + kSums <= size; i += kSums) {
    for (std::int64_t j = 0; j < kSums; ++j)
      sums[static_cast<std::size_t>(j)] += a[i + j] * b[i + j];
  }
  float sum = std::accumulate(sums.begin(), sums.end(), 0.0F);
  for (; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace sullae::train

// Products of weights that come from memory with a few rows, as fast as they come.
#pragma once

#include <cstdint>

namespace sullae::train {

/// out[row × stride + i] = the sum of weights[i × size + k] × inputs[row × size + k], for i in
/// [first, last) and `rows` rows. `kWidth` numbers at a time, of which the processor that it is
/// compiled for has registers.
template <int kWidth>
class DotProducts {
 public:
  [[gnu::always_inline]] static inline void compute(const float* weights, std::int64_t size,
                                                    std::int64_t first, std::int64_t last,
                                                    const float* inputs, std::int64_t rows,
                                                    float* out, std::int64_t stride) {
    for (std::int64_t i = first; i < last; ++i) {
      const float* const weight = weights + i * size;
      std::int64_t row = 0;
      for (; row + 8 <= rows; row += 8)
        with_rows<8>(weight, inputs + row * size, size, out + row * stride + i, stride);
      for (; row + 4 <= rows; row += 4)
        with_rows<4>(weight, inputs + row * size, size, out + row * stride + i, stride);
      for (; row + 2 <= rows; row += 2)
        with_rows<2>(weight, inputs + row * size, size, out + row * stride + i, stride);
      if (row < rows)
        with_rows<1>(weight, inputs + row * size, size, out + row * stride + i, stride);
    }
  }

 private:
  using Vector
      [[gnu::vector_size(kWidth * sizeof(float)), gnu::aligned(alignof(float)), gnu::may_alias]] =
          float;
  // Bytes. What is fetched by itself is no further ahead than some hundred.
  static constexpr std::int64_t kAhead = 4096;

  // Each weight is read once, and has a sum of its own with each row.
  template <int kRows>
  [[gnu::always_inline]] static inline void with_rows(const float* weight, const float* inputs,
                                                      std::int64_t size, float* out,
                                                      std::int64_t stride) {
    Vector sums[kRows] = {};
    std::int64_t k = 0;
    for (; k + kWidth <= size; k += kWidth) {
      __builtin_prefetch(reinterpret_cast<const char*>(weight + k) + kAhead);
      const Vector values = *reinterpret_cast<const Vector*>(weight + k);
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row)
        sums[row] += values * *reinterpret_cast<const Vector*>(inputs + row * size + k);
    }
    for (int row = 0; row < kRows; ++row) {
      float sum = 0;
      for (int i = 0; i < kWidth; ++i) sum += sums[row][i];
      for (std::int64_t rest = k; rest < size; ++rest)
        sum += weight[rest] * inputs[row * size + rest];
      out[row * stride] = sum;
    }
  }
};

}  // namespace sullae::train

#include <immintrin.h>

#include "collective/reduce/reduce.h"

namespace sullae::reduction {
namespace {

struct Half {
  static void load_float16(const std::uint16_t* from, float* into, std::size_t n) {
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8) {
      const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
      _mm256_storeu_ps(into + i, _mm256_cvtph_ps(packed));
    }
    for (; i < n; ++i) into[i] = _cvtsh_ss(from[i]);
  }
  static void store_float16(const float* from, std::uint16_t* into, std::size_t n) {
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8) {
      const __m128i packed = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(into + i), packed);
    }
    for (; i < n; ++i) into[i] = _cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT);
  }
};

}  // namespace
}  // namespace sullae::reduction

#include "collective/reduce/kernels.inl.h"

namespace sullae::reduction {
extern const KernelSet avx2_kernels;
const KernelSet avx2_kernels = make_kernel_set("avx2");
}  // namespace sullae::reduction

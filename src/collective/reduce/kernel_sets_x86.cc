#include "collective/reduce/kernel_sets.h"

namespace sullae::reduction {

extern const KernelSet generic_kernels;
extern const KernelSet avx2_kernels;
extern const KernelSet avx512_kernels;

std::span<const KernelSet* const> detect_kernel_sets() {
  static const KernelSet* const sets[] = {&generic_kernels, &avx2_kernels, &avx512_kernels};
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  return std::span(sets).first(avx512 ? 3 : avx2 ? 2 : 1);
}

}  // namespace sullae::reduction

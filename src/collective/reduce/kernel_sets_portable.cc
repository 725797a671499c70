#include "collective/reduce/kernel_sets.h"

namespace sullae::reduction {

extern const KernelSet generic_kernels;

std::span<const KernelSet* const> detect_kernel_sets() {
  static const KernelSet* const sets[] = {&generic_kernels};
  return sets;
}

}  // namespace sullae::reduction

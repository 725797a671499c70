// Which instruction sets were built: kernel_sets_x86.cc or kernel_sets_portable.cc, as the
// processor's family has it.
#pragma once

#include <span>

#include "collective/reduce/reduce.h"

namespace sullae::reduction {

/// Every set that was built and that this processor runs, slowest first.
std::span<const KernelSet* const> detect_kernel_sets();

}  // namespace sullae::reduction

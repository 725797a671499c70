// Dynamic quantisation: weights of linear layers and LSTMs in 8 bits.
#pragma once

#include <torch/script.h>

namespace sullae::serve {

/// Replaces, in the method forward of a frozen module, aten::linear and aten::lstm with constant weights by
/// libtorch's dynamically quantised ones. Throws Error where this libtorch has no engine for them.
void quantize_to_int8(torch::jit::Module& module);

}  // namespace sullae::serve

// Multiplies values, for prescale and postscale factors.
#pragma once

#include <cstddef>

#include "sullae/types.h"

namespace sullae::engine {

/// Throws InputError for a type that cannot be scaled.
void check_scalable(DataType type);

/// out[i] = in[i] × factor, of integers what is before the point; `in` and `out` may be the same.
void scale(const void* in, void* out, std::size_t count, DataType type, double factor);

}  // namespace sullae::engine

// The two loops of Adasum over elements of one type.
#pragma once

#include <cstddef>

#include "sullae/types.h"

namespace sullae::adasum {

/// The products of two vectors' parts that decide how they are combined.
struct Dots {
  double ab = 0;
  double aa = 0;
  double bb = 0;
};

/// In float64, whatever the type. float32, float64, float16 and bfloat16.
Dots dots(const void* a, const void* b, std::size_t count, DataType type);

/// out[i] = (1 - ab / 2aa) a[i] + (1 - ab / 2bb) b[i]; a vector of zeros leaves the other as it is.
/// `out` may be `a` or `b`.
void combine(const Dots& dots, const void* a, const void* b, void* out, std::size_t count,
             DataType type);

}  // namespace sullae::adasum

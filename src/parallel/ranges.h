// How many of something each rank has.
#pragma once

#include <cstdint>

#include "sullae/parallel/index_range.h"

namespace sullae {

/// [0, whole) in `parts`, of which the first have one more where it does not come out.
inline IndexRange even_part(std::int64_t whole, int parts, int part) {
  const std::int64_t each = whole / parts;
  const std::int64_t more = whole % parts;
  const auto start = [&](std::int64_t i) {
    return i * each + (i < more ? i : more);
  };
  return {start(part), start(part + 1)};
}

}  // namespace sullae

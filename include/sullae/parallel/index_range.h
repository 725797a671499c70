// A range of elements, rows, or whatever is counted.
#pragma once

#include <cstdint>

namespace sullae {

struct IndexRange {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t size() const { return to - from; }
  bool operator==(const IndexRange&) const = default;
};

}  // namespace sullae

// memcpy for ranges that may be empty, whose pointers may then be null.
#pragma once

#include <cstddef>
#include <cstring>

namespace sullae {

inline void copy_bytes(void* into, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(into, from, bytes);
}

}  // namespace sullae

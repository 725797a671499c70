// A hash that is the same on every rank, whatever its compiler and library.
#pragma once

#include <cstdint>
#include <string_view>

namespace sullae {

/// FNV-1a. Pieces are hashed one after another by passing the hash so far as `hash`.
inline constexpr std::uint64_t kFnvStart = 14695981039346656037ULL;
inline std::uint64_t fnv1a(std::string_view bytes, std::uint64_t hash = kFnvStart) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211ULL;
  return hash;
}

}  // namespace sullae

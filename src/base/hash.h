// Hashes that are the same on every rank, whatever its compiler and library.
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

/// A finalizer of D. Stafford's ("mix13", as in SplitMix64).
inline std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace sullae

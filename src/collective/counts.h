// Arithmetic on the counts that collectives with a part a rank take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "base/hash.h"

namespace sullae {

/// Start of each rank's part, and the total at the end: one longer than `counts`.
inline std::vector<std::size_t> offsets_of(std::span<const std::size_t> counts) {
  std::vector<std::size_t> offsets(counts.size() + 1, 0);
  std::partial_sum(counts.begin(), counts.end(), offsets.begin() + 1);
  return offsets;
}

/// For comparing counts between ranks.
inline std::uint64_t hash_of(std::span<const std::size_t> counts) {
  return fnv1a({reinterpret_cast<const char*>(counts.data()), counts.size_bytes()});
}

/// The part-th of `parts` nearly equal ranges of [0, count), each start a multiple of `granule`
/// elements.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};
inline Range part_of(std::size_t count, int part, int parts, std::size_t granule = 1) {
  const std::size_t granules = (count + granule - 1) / granule;
  const auto boundary = [&](int index) {
    const std::size_t at =
        granules * static_cast<std::size_t>(index) / static_cast<std::size_t>(parts) * granule;
    return at < count ? at : count;
  };
  return {boundary(part), boundary(part + 1)};
}

/// The sizes of all those parts.
inline std::vector<std::size_t> equal_counts(std::size_t count, int parts,
                                             std::size_t granule = 1) {
  std::vector<std::size_t> counts;
  for (int i = 0; i < parts; ++i) counts.push_back(part_of(count, i, parts, granule).size());
  return counts;
}

/// `count` elements of `width` bytes, rounded up to whole cache lines.
inline std::size_t padded_to_lines(std::size_t count, std::size_t width) {
  const std::size_t granule = 64 / width;
  return (count + granule - 1) / granule * granule;
}

}  // namespace sullae

// Which rank has which elements of a bucket. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace sullae {

/// Of a parameter in a bucket: its elements as they lie in memory.
struct ShardPiece {
  std::size_t place = 0;  ///< of the parameter in the bucket
  std::size_t from = 0;   ///< among the parameter's elements
  std::size_t to = 0;
  std::size_t at = 0;  ///< where it begins in the shard
  bool operator==(const ShardPiece&) const = default;
};

/// How many of `elements` each rank has: as equal as can be in units of 64 bytes, the first ranks
/// more.
std::vector<std::size_t> shard_counts(std::size_t elements, std::size_t element_bytes, int ranks);

/// Where parameters of so many elements lie in a bucket in which each begins at a multiple of 64
/// bytes.
std::vector<std::size_t> starts_of(const std::vector<std::size_t>& sizes,
                                   std::size_t element_bytes);

/// What the shard [begin, end) of the bucket has of each parameter; at most one piece of each, in
/// the order of places.
std::vector<ShardPiece> pieces_of(const std::vector<std::size_t>& sizes, std::size_t element_bytes,
                                  std::size_t begin, std::size_t end);

}  // namespace sullae

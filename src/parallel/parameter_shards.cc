#include "parallel/parameter_shards.h"

#include <algorithm>

#include "collective/counts.h"

namespace sullae {

std::vector<std::size_t> shard_counts(std::size_t elements, std::size_t element_bytes, int ranks) {
  const std::size_t line = padded_to_lines(1, element_bytes);
  const std::size_t lines = (elements + line - 1) / line;
  const auto parts = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> counts;
  std::size_t begin = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t most = lines / parts + (part < lines % parts ? 1 : 0);
    const std::size_t end = std::min(begin + most * line, elements);
    counts.push_back(end - begin);
    begin = end;
  }
  return counts;
}

std::vector<std::size_t> starts_of(const std::vector<std::size_t>& sizes,
                                   std::size_t element_bytes) {
  std::vector<std::size_t> starts;
  std::size_t start = 0;
  for (const std::size_t size : sizes) {
    starts.push_back(start);
    start += padded_to_lines(size, element_bytes);
  }
  return starts;
}

std::vector<ShardPiece> pieces_of(const std::vector<std::size_t>& sizes, std::size_t element_bytes,
                                  std::size_t begin, std::size_t end) {
  const auto starts = starts_of(sizes, element_bytes);
  std::vector<ShardPiece> pieces;
  for (std::size_t place = 0; place < sizes.size(); ++place) {
    const std::size_t first = std::max(begin, starts[place]);
    const std::size_t last = std::min(end, starts[place] + sizes[place]);
    if (first >= last) continue;
    pieces.push_back({.place = place,
                      .from = first - starts[place],
                      .to = last - starts[place],
                      .at = first - begin});
  }
  return pieces;
}

}  // namespace sullae

#include "parallel/tensor/part_ranges.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace sullae {
namespace {

// The product of the sizes in [from, to).
std::int64_t product_of(torch::IntArrayRef shape, std::size_t from, std::size_t to) {
  std::int64_t product = 1;
  for (std::size_t dim = from; dim < to; ++dim) product *= shape[dim];
  return product;
}

}  // namespace

std::vector<IndexRange> elements_in(torch::IntArrayRef shape, std::int64_t dim,
                                    const std::vector<IndexRange>& ranges) {
  const auto along = static_cast<std::size_t>(dim);
  const std::int64_t before = product_of(shape, 0, along);
  const std::int64_t behind = product_of(shape, along + 1, shape.size());
  std::vector<IndexRange> elements;
  for (std::int64_t row = 0; row < before; ++row) {
    const std::int64_t start = row * shape[along];
    for (const IndexRange& range : ranges)
      elements.push_back(
          {.from = (start + range.from) * behind, .to = (start + range.to) * behind});
  }
  return elements;
}

std::vector<IndexRange> some_of(const std::vector<IndexRange>& ranges, const IndexRange& some) {
  std::vector<IndexRange> found;
  std::int64_t at = 0;  // of the elements before a range
  for (const IndexRange& range : ranges) {
    const std::int64_t from = std::max(some.from, at);
    const std::int64_t to = std::min(some.to, at + range.size());
    if (from < to) found.push_back({.from = range.from + from - at, .to = range.from + to - at});
    at += range.size();
  }
  return found;
}

std::vector<Part> cut_alike(std::vector<Part> parts) {
  std::vector<std::size_t> cuts;
  for (const Part& part : parts) cuts.insert(cuts.end(), {part.from, part.to});
  std::ranges::sort(cuts);
  cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());
  std::vector<Part> cut;
  for (const Part& part : parts) {
    std::size_t from = part.from;
    for (auto to = std::ranges::upper_bound(cuts, from); from < part.to; from = *to++)
      cut.push_back({.rank = part.rank, .from = from, .to = *to});
  }
  std::ranges::sort(cut, {}, [](const Part& part) { return std::tuple(part.from, part.rank); });
  return cut;
}

bool are_whole(const std::vector<Part>& parts, std::size_t elements) {
  std::size_t next = 0;
  for (const Part& part : parts) {
    if (part.to == next) continue;  // another rank has it, too
    if (part.from != next) return false;
    next = part.to;
  }
  return next == elements;
}

}  // namespace sullae

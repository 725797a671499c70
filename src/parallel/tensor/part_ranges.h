// Where the parts of a tensor lie in its memory. Pure.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "parallel/parameter_parts.h"
#include "sullae/parallel/index_range.h"

namespace sullae {

/// The elements of a tensor of `shape`, row by row, that are in `ranges` along `dim`: ascending
/// where those are.
std::vector<IndexRange> elements_in(torch::IntArrayRef shape, std::int64_t dim,
                                    const std::vector<IndexRange>& ranges);

/// What is `some` of the elements in `ranges`, which are counted one range behind the other.
std::vector<IndexRange> some_of(const std::vector<IndexRange>& ranges, const IndexRange& some);

/// Cuts `parts` so that any two are of the same elements or of none that are the same, and puts
/// them in the order of elements, and of ranks.
std::vector<Part> cut_alike(std::vector<Part> parts);

/// Whether `parts`, as cut_alike() has them, are all of so many elements.
bool are_whole(const std::vector<Part>& parts, std::size_t elements);

}  // namespace sullae

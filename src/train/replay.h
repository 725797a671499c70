// Which of the old samples are trained again beside new ones, so that a few new ones do not distort the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sullae::train {

/// `count` samples drawn at random, as many of each class as of the others (to one), or all of a class that has
/// fewer; no sample twice. `by_class` holds the numbers of each class's samples. Depends on the arguments alone.
/// (Class-balanced experience replay: A. Chrysakis, M.-F. Moens, 2020.)
std::vector<std::size_t> draw_balanced(const std::vector<std::vector<std::size_t>>& by_class,
                                       std::size_t count, std::uint64_t seed);

}  // namespace sullae::train

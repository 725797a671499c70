// Which of the old samples are trained again beside new ones, so that a few new ones do not distort
// the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sullae::train {

/// `count` samples drawn at random, as many of each class as of the others (to one), or all of a
/// class that has fewer; no sample twice. `by_class` holds the numbers of each class's samples.
/// Depends on the arguments alone. (Class-balanced experience replay: A. Chrysakis, M.-F. Moens,
/// 2020.)
std::vector<std::size_t> draw_balanced(const std::vector<std::vector<std::size_t>>& by_class,
                                       std::size_t count, std::uint64_t seed);

/// `count` of the numbers below `size`, drawn at random; all of them, in order, where `count` is 0
/// or not less.
std::vector<std::size_t> draw(std::size_t size, std::size_t count, std::uint64_t seed);

/// The numbers from `begin` to before `end`.
std::vector<std::size_t> range(std::size_t begin, std::size_t end);

}  // namespace sullae::train

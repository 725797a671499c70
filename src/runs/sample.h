// A curve of many points as a few that draw the same picture.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace sullae::runs {

/// Indices, ascending, of at most `most` points (at least 4; all where there are no more) of a
/// curve whose `x` ascends: of each of most / 4 stretches of x of equal length the first, the last,
/// the lowest and the highest, so that a line drawn through them as many pixels wide covers the
/// pixels that one through all of them would (M4: Jugel et al., VLDB 2014). Values that are no
/// number count as the highest.
std::vector<std::size_t> sample(std::span<const double> x, std::span<const double> y,
                                std::size_t most);

}  // namespace sullae::runs

// Which ranks make a row of a grid.
#pragma once

#include <vector>

namespace sullae {

/// For each dimension the groups of ranks that differ in it alone, each ascending, in which a
/// rank's place is its coordinate. The last dimension runs fastest over `ranks`, all of them in
/// some order; where groups would not ascend then, over the ranks as they are numbered.
std::vector<std::vector<std::vector<int>>> groups_of_grid(const std::vector<int>& sizes,
                                                          const std::vector<int>& ranks);

}  // namespace sullae

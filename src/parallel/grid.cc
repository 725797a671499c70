#include "parallel/grid.h"

#include <algorithm>

namespace sullae {
namespace {

using Groups = std::vector<std::vector<std::vector<int>>>;

Groups groups_over(const std::vector<int>& sizes, const std::vector<int>& ranks) {
  Groups groups;
  std::size_t stride = ranks.size();
  for (const int size : sizes) {
    const auto length = static_cast<std::size_t>(size);
    stride /= length;
    std::vector<std::vector<int>> along;
    for (std::size_t first = 0; first < ranks.size(); ++first) {
      if (first / stride % length != 0) continue;
      std::vector<int> group;
      for (std::size_t i = 0; i < length; ++i) group.push_back(ranks[first + i * stride]);
      along.push_back(std::move(group));
    }
    groups.push_back(std::move(along));
  }
  return groups;
}

}  // namespace

Groups groups_of_grid(const std::vector<int>& sizes, const std::vector<int>& ranks) {
  auto groups = groups_over(sizes, ranks);
  const bool ascend = std::ranges::all_of(groups, [](const auto& along) {
    return std::ranges::all_of(along,
                               [](const auto& group) { return std::ranges::is_sorted(group); });
  });
  if (ascend) return groups;
  auto numbered = ranks;
  std::ranges::sort(numbered);
  return groups_over(sizes, numbered);
}

}  // namespace sullae

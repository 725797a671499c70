#include "base/nearest.h"

#include <algorithm>
#include <cstddef>

namespace sullae {
namespace {

// Characters to change, add or leave out, and neighbours to swap, until one word is the other
// (optimal string alignment).
std::size_t distance(const std::string& one, const std::string& other) {
  std::vector<std::vector<std::size_t>> cost(one.size() + 1,
                                             std::vector<std::size_t>(other.size() + 1));
  for (std::size_t i = 0; i <= one.size(); ++i) {
    for (std::size_t j = 0; j <= other.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                             cost[i - 1][j - 1] + (one[i - 1] == other[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost.back().back();
}

}  // namespace

std::string nearest(const std::vector<std::string>& all, const std::string& name) {
  constexpr std::size_t kMostMistakes = 2;
  std::string found;
  std::size_t least = kMostMistakes + 1;
  for (const std::string& one : all) {
    const bool is_longer =
        one.starts_with(name) || (name.starts_with("--") && one.ends_with(name.substr(1)));
    const auto mistakes = is_longer ? 1 : distance(name, one);
    if (mistakes < least) {
      least = mistakes;
      found = one;
    }
  }
  return found;
}

}  // namespace sullae

#include "train/replay.h"

#include <algorithm>
#include <numeric>

#include "sullae/data/order.h"

namespace sullae::train {

std::vector<std::size_t> draw_balanced(const std::vector<std::vector<std::size_t>>& by_class,
                                       std::size_t count, std::uint64_t seed) {
  // The scarcest class first: what it lacks the others make up for.
  std::vector<std::size_t> order;
  for (std::size_t c = 0; c < by_class.size(); ++c) {
    if (!by_class[c].empty()) order.push_back(c);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t c) { return by_class[c].size(); });
  std::vector<std::size_t> drawn;
  for (std::size_t i = 0; i < order.size(); ++i) {
    auto pool = by_class[order[i]];
    const std::size_t classes_left = order.size() - i;
    const std::size_t share =
        std::min(pool.size(), (count - drawn.size() + classes_left - 1) / classes_left);
    data::Random random(seed, order[i], 0);
    // The first steps of a Fisher-Yates shuffle.
    for (std::size_t k = 0; k < share; ++k) {
      std::swap(pool[k], pool[k + random.below(pool.size() - k)]);
      drawn.push_back(pool[k]);
    }
  }
  return drawn;
}

std::vector<std::size_t> draw(std::size_t size, std::size_t count, std::uint64_t seed) {
  if (count == 0 || count >= size) return range(0, size);
  return draw_balanced({range(0, size)}, count, seed);
}

std::vector<std::size_t> range(std::size_t begin, std::size_t end) {
  std::vector<std::size_t> numbers(end - begin);
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

}  // namespace sullae::train

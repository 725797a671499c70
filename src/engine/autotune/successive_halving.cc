#include "engine/autotune/successive_halving.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace sullae::engine {

SuccessiveHalving::SuccessiveHalving(std::size_t candidates)
    : scores_(candidates), left_(candidates) {
  std::iota(left_.begin(), left_.end(), std::size_t{0});
}

void SuccessiveHalving::score(double value) {
  scores_[current()].push_back(value);
  if (++next_ < left_.size()) return;
  next_ = 0;
  if (done()) return;
  std::ranges::stable_sort(left_, std::greater<>(),
                           [this](std::size_t candidate) { return median(candidate); });
  left_.resize((left_.size() + 1) / 2);
}

double SuccessiveHalving::median(std::size_t candidate) const {
  std::vector<double> values = scores_[candidate];
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace sullae::engine

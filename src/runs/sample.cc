#include "runs/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace sullae::runs {
namespace {

double height(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
}

}  // namespace

std::vector<std::size_t> sample(std::span<const double> x, std::span<const double> y,
                                std::size_t most) {
  std::vector<std::size_t> kept;
  if (x.size() <= std::max<std::size_t>(most, 4)) {
    for (std::size_t i = 0; i < x.size(); ++i) kept.push_back(i);
    return kept;
  }
  const std::size_t stretches = std::max<std::size_t>(most / 4, 1);
  const double width = (x.back() - x.front()) / static_cast<double>(stretches);
  std::size_t begin = 0;
  for (std::size_t stretch = 1; stretch <= stretches && begin < x.size(); ++stretch) {
    const double limit = x.front() + width * static_cast<double>(stretch);
    std::size_t end = begin;
    std::size_t low = begin;
    std::size_t high = begin;
    // The last takes what rounding would leave.
    for (; end < x.size() && (stretch == stretches || x[end] < limit); ++end) {
      if (height(y[end]) < height(y[low])) low = end;
      if (height(y[end]) > height(y[high])) high = end;
    }
    if (end == begin) continue;
    for (const std::size_t point : std::set<std::size_t>{begin, low, high, end - 1})
      kept.push_back(point);
    begin = end;
  }
  return kept;
}

}  // namespace sullae::runs

#include "ps/placement.h"

#include <algorithm>
#include <numeric>

namespace sullae::ps {
namespace {

constexpr std::size_t kMostElements = std::size_t{1} << 20;
constexpr std::size_t kLeastElements = std::size_t{16} << 10;
constexpr std::size_t kSlicesAServer = 8;

}  // namespace

std::size_t Slice::elements() const {
  std::size_t sum = 0;
  for (const Range& range : ranges) sum += range.elements();
  return sum;
}

std::vector<Slice> place(const std::vector<std::size_t>& tensors, int servers) {
  const auto count = static_cast<std::size_t>(servers);
  const auto total = std::accumulate(tensors.begin(), tensors.end(), std::size_t{0});
  const auto most = std::clamp(total / (count * kSlicesAServer), kLeastElements, kMostElements);
  std::vector<Slice> slices;
  std::size_t room = 0;  // in the last slice, for small tensors
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    const std::size_t elements = tensors[tensor];
    const std::size_t parts = std::max<std::size_t>(1, (elements + most - 1) / most);
    for (std::size_t part = 0; part < parts; ++part) {
      const Range range{tensor, elements * part / parts, elements * (part + 1) / parts};
      if (slices.empty() || parts > 1 || range.elements() > room) {
        slices.emplace_back();
        room = parts > 1 ? 0 : most;
      }
      room -= std::min(room, range.elements());
      slices.back().ranges.push_back(range);
    }
  }
  std::vector<std::size_t> order(slices.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater{},
                           [&](std::size_t i) { return slices[i].elements(); });
  std::vector<std::size_t> loads(count);
  for (const std::size_t i : order) {
    const auto emptiest = std::ranges::min_element(loads);
    *emptiest += slices[i].elements();
    slices[i].server = static_cast<int>(emptiest - loads.begin());
  }
  return slices;
}

}  // namespace sullae::ps

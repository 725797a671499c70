#include "sullae/data/order.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>

#include "base/hash.h"

namespace sullae::data {
namespace {

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;

template <class Value>
void shuffle(std::span<Value> values, Random& random) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random.below(i)]);
}

}  // namespace

Random::Random(std::uint64_t seed, std::uint64_t stream, std::uint64_t position)
    : state_(mix64(mix64(mix64(seed + kStep) ^ (stream + 2 * kStep)) ^ (position + 3 * kStep))) {}

std::uint64_t Random::next() { return mix64(state_ += kStep); }

std::uint64_t Random::below(std::uint64_t bound) {
  // Values below the remainder of 2^64 would make the first results likelier.
  const std::uint64_t least = (0 - bound) % bound;
  for (;;) {
    const std::uint64_t value = next();
    if (value >= least) return value % bound;
  }
}

std::vector<std::size_t> epoch_order(std::size_t size, const OrderOptions& options,
                                     std::size_t epoch) {
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!options.shuffle) return order;
  Random random(options.seed, epoch, 0);
  if (options.shuffle_buffer == 0 || options.shuffle_buffer >= size) {
    shuffle(std::span(order), random);
    return order;
  }
  const std::size_t run = std::clamp<std::size_t>(options.run, 1, size);
  std::vector<std::size_t> starts;
  for (std::size_t start = 0; start < size; start += run) starts.push_back(start);
  shuffle(std::span(starts), random);
  auto place = order.begin();
  for (const std::size_t start : starts) {
    for (std::size_t i = start; i < std::min(start + run, size); ++i) *place++ = i;
  }
  for (std::size_t start = 0; start < size; start += options.shuffle_buffer) {
    shuffle(std::span(order).subspan(start, std::min(options.shuffle_buffer, size - start)),
            random);
  }
  return order;
}

}  // namespace sullae::data
